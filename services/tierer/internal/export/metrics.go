package export

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics of an Exporter.
type Metrics struct {
	manifests prometheus.Counter
	failures  prometheus.Counter
	seconds   prometheus.Histogram
}

// NewMetrics makes and registers them.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		manifests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_manifests_total", Help: "Manifests that were put into the bucket.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_export_failures_total", Help: "Exports of a partition's tier table that failed. They are tried again.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sq_tierer_export_seconds", Help: "How long it took from the wish to export a tier table until its leader knew of the manifest.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 9),
		}),
	}
	for _, c := range []prometheus.Collector{m.manifests, m.failures, m.seconds} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register export metric: %w", err)
		}
	}
	return m, nil
}
