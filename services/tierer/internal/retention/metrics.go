package retention

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/telemetry"
)

// Metrics of what was deleted.
type Metrics struct {
	segments  prometheus.Counter
	manifests prometheus.Counter
}

// NewMetrics makes and registers them.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		segments: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_collected_segments_total", Help: "Dropped segments that were deleted from the bucket.",
		}),
		manifests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_pruned_manifests_total", Help: "Manifests that were deleted from the bucket because newer ones have all their tables.",
		}),
	}
	return m, telemetry.Register(registry, m.segments, m.manifests) //nolint:wrapcheck // says what was attempted.
}
