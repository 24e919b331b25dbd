package compaction

import "github.com/prometheus/client_golang/prometheus"

// Metrics counts what compaction does, over all partitions of a broker.
type Metrics struct {
	running                             prometheus.Gauge
	passes, failures, segments, records prometheus.Counter
	read, written, saved                prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sq", Subsystem: "broker", Name: "compaction_" + name, Help: help})
	}
	m := &Metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "sq", Subsystem: "broker", Name: "compaction_running", Help: "Whether a partition is being compacted, 0 or 1.",
		}),
		passes:   counter("passes_total", "Compaction passes over a partition that came to their end."),
		failures: counter("failures_total", "Compaction passes that ended early."),
		segments: counter("segments_total", "Segments that compaction has replaced."),
		records:  counter("removed_records_total", "Records that compaction has removed."),
		read:     counter("read_bytes_total", "Bytes of batches that compaction has read."),
		written:  counter("written_bytes_total", "Bytes of batches that compaction has written."),
		saved:    counter("saved_bytes_total", "Bytes by which compaction has made segments smaller."),
	}
	reg.MustRegister(m.running, m.passes, m.failures, m.segments, m.records, m.read, m.written, m.saved)
	return m
}
