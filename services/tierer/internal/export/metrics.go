package export

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/telemetry"
)

// Metrics of an Exporter.
type Metrics struct {
	registry  *prometheus.Registry
	manifests prometheus.Counter
	failures  prometheus.Counter
	seconds   prometheus.Histogram
}

// NewMetrics makes and registers them.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		registry: registry,
		manifests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_manifests_total", Help: "Manifests that were put into the bucket.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_export_failures_total", Help: "Exports of a partition's tier table that failed. They are tried again.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sq_tierer_export_seconds", Help: "How long it took from the first wish to export a tier table until its leader knew of the manifest.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 9),
		}),
	}
	return m, telemetry.Register(registry, m.manifests, m.failures, m.seconds) //nolint:wrapcheck // says what was attempted.
}

// watch registers the lag. Of a registry only the first exporter's is shown.
func (m *Metrics) watch(lag *Lag) {
	_ = m.registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{ // twice only where a test makes two exporters
		Name: "sq_tierer_export_lag_seconds",
		Help: "How long the tier table has waited that waits longest to be exported; local data above the exported tier end is not deleted meanwhile.",
	}, func() float64 { return lag.Oldest().Seconds() }))
}
