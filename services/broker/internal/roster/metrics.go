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
		{"damaged_ranges", "Ranges of logs that cannot be read and have not been repaired.", func(s replica.State) float64 { return float64(s.Damaged) }},
		{"local_bytes", "Bytes of log segments on the disk.", func(s replica.State) float64 { return float64(s.SizeBytes) }},
	}
}

func (g gauge) desc() *prometheus.Desc {
	return prometheus.NewDesc("sq_broker_"+g.name, g.help, nil, nil)
}

func poolDesc() *prometheus.Desc {
	return prometheus.NewDesc("sq_broker_pool_bytes", "Bytes of dropped segment files that are kept to be written again.", nil, nil)
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, g := range gauges() {
		out <- g.desc()
	}
	out <- poolDesc()
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(poolDesc(), prometheus.GaugeValue, float64(c.r.pool.Bytes()))
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
}
