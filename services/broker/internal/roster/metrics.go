package roster

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// collector sums over the replicas when it is asked; no series a partition.
type collector struct{ r *Roster }

// gauge is a sum over the states of the replicas.
type gauge struct {
	name, help string
	of         func(replica.State) float64
}

func gauges() []gauge {
	return []gauge{
		{"replicas", "Replicas that are open.", func(replica.State) float64 { return 1 }},
		{"leaders", "Replicas that lead and serve.", func(s replica.State) float64 {
			if s.Active {
				return 1
			}
			return 0
		}},
		{"log_end_offsets", "Sum of the log ends of all replicas.", func(s replica.State) float64 { return float64(s.End) }},
		{"high_watermark_offsets", "Sum of the high watermarks of all replicas.", func(s replica.State) float64 { return float64(s.HighWatermark) }},
		{"unsealed_offsets", "Offsets below the high watermark that are not sealed.", func(s replica.State) float64 {
			return float64(s.HighWatermark - min(s.SealedEnd, s.HighWatermark))
		}},
		{"untiered_offsets", "Offsets that are sealed and not in the bucket.", func(s replica.State) float64 {
			return float64(s.SealedEnd - min(s.TierEnd, s.SealedEnd))
		}},
		{"unexported_offsets", "Offsets that are in the bucket and in no exported manifest.", func(s replica.State) float64 {
			return float64(s.TierEnd - min(s.ExportedEnd, s.TierEnd))
		}},
		{"local_bytes", "Bytes of log segments on the disk.", func(s replica.State) float64 { return float64(s.SizeBytes) }},
	}
}

// room describes the disk: its size, what is free, and whether records are refused for lack of it.
func room() (total, free, refuses *prometheus.Desc) {
	return prometheus.NewDesc("sq_broker_disk_bytes", "Size of the volume that the data directory is on.", nil, nil),
		prometheus.NewDesc("sq_broker_disk_free_bytes", "Free bytes of the volume that the data directory is on.", nil, nil),
		prometheus.NewDesc("sq_broker_disk_refuses", "1 while records are refused because the disk has little room left, else 0.", nil, nil)
}

func (g gauge) desc() *prometheus.Desc {
	return prometheus.NewDesc("sq_broker_"+g.name, g.help, nil, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges() {
		out <- g.desc()
	}
	total, free, refuses := room()
	out <- total
	out <- free
	out <- refuses
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	all := gauges()
	sums := make([]float64, len(all))
	for _, rep := range c.r.replicas() {
		state := rep.State()
		for i, g := range all {
			sums[i] += g.of(state)
		}
	}
	for i, g := range all {
		out <- prometheus.MustNewConstMetric(g.desc(), prometheus.GaugeValue, sums[i])
	}
	total, free, refuses := room()
	full := 0.0
	if c.r.full.Load() {
		full = 1
	}
	out <- prometheus.MustNewConstMetric(refuses, prometheus.GaugeValue, full)
	if usage, err := c.r.deps.FS.Usage(); err == nil { // watchRoom tells why not
		out <- prometheus.MustNewConstMetric(total, prometheus.GaugeValue, float64(usage.Total))
		out <- prometheus.MustNewConstMetric(free, prometheus.GaugeValue, float64(usage.Free))
	}
}
