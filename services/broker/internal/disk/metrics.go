package disk

import "github.com/prometheus/client_golang/prometheus"

// collector shows what was seen last.
type collector struct{ w *Watch }

type gauge struct {
	desc *prometheus.Desc
	of   func(*status) float64
}

func gauges() []gauge {
	of := func(name, help string, of func(*status) float64) gauge {
		return gauge{prometheus.NewDesc("sq_broker_disk_"+name, help, nil, nil), of}
	}
	return []gauge{
		of("state", "What the data disk takes: 0 everything, 1 no records, 2 no appends, 3 nothing, it has failed.",
			func(s *status) float64 { return float64(s.state) }),
		of("refuses", "1 while records are refused because the disk has little room left, or has failed, else 0.", func(s *status) float64 {
			return float64(min(s.state, RefusesRecords))
		}),
		of("free_bytes", "Free bytes on the volume of the data disk.", func(s *status) float64 { return float64(s.usage.Free) }),
		of("bytes", "Size of the volume of the data disk.", func(s *status) float64 { return float64(s.usage.Total) }),
		of("refuse_records_bytes", "Free bytes below which records are refused.", func(s *status) float64 { return float64(s.marks.Records) }),
		of("refuse_appends_bytes", "Free bytes below which appends are refused.", func(s *status) float64 { return float64(s.marks.Appends) }),
		of("ballast_bytes", "Bytes that are held back for what makes room; 0 while they are let go.",
			func(s *status) float64 { return float64(s.held) }),
	}
}

func failuresDesc() *prometheus.Desc {
	return prometheus.NewDesc("sq_broker_disk_failures", "How often the data disk had failed within a day when the broker started; the second time retires it.", nil, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges() {
		out <- g.desc
	}
	out <- failuresDesc()
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	s := c.w.now.Load()
	for _, g := range gauges() {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.of(s))
	}
	out <- prometheus.MustNewConstMetric(failuresDesc(), prometheus.GaugeValue, float64(c.w.cfg.Failures))
}
