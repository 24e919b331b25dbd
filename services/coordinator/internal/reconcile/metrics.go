package reconcile

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/telemetry"
)

// Metrics of a Loop.
type Metrics struct {
	nominations *prometheus.CounterVec
	lost        prometheus.Counter
	collected   prometheus.Counter
	rereads     prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		nominations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_coordinator_nominations_total", Help: "Leaders nominated, by the reason.",
		}, []string{"why"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_coordinator_nominations_lost_total", Help: "Nominations not written because the partition or a broker had changed.",
		}),
		collected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_coordinator_keys_collected_total", Help: "Keys removed that deleted or never completed topics had left.",
		}),
		rereads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_coordinator_pauses_total", Help: "Pauses of this process of more than a second, after which everything was read anew.",
		}),
	}
	return m, telemetry.Register(registry, m.nominations, m.lost, m.collected, m.rereads) //nolint:wrapcheck // says what was attempted.
}
