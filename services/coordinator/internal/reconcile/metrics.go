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
	moves       *prometheus.CounterVec
	// how the partitions are
	partitions, leaderless, underReplicated, started, waiting prometheus.Gauge
}

// NewMetrics registers the metrics.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		nominations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_coordinator_nominations_total", Help: "Leaders nominated, by the reason.",
		}, []string{"why"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_coordinator_nominations_lost_total", Help: "Nominations and changes of members not written because the partition or a broker had changed.",
		}),
		collected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_coordinator_keys_collected_total", Help: "Keys removed that deleted or never completed topics had left.",
		}),
		rereads: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_coordinator_pauses_total", Help: "Pauses of this process of more than a second, after which everything was read anew.",
		}),
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_coordinator_moves_total", Help: "Changes of partitions' members, by the step that was taken and the reason.",
		}, []string{"step", "why"}),
		partitions: gauge("sq_coordinator_partitions", "Partitions of topics that are not deleted. 0 where this coordinator stands by."),
		leaderless: gauge("sq_coordinator_partitions_without_leader", "Partitions that nobody serves now: no live leader has finished its election."),
		underReplicated: gauge("sq_coordinator_partitions_under_replicated",
			"Partitions of which fewer members live than the topic's replication factor asks for."),
		started: gauge("sq_coordinator_moves_started", "Partitions whose members are being changed: new replicas learn."),
		waiting: gauge("sq_coordinator_moves_waiting", "Partitions with a planned change of members that waits for its turn."),
	}
	return m, telemetry.Register(registry, m.nominations, m.lost, m.collected, m.rereads, m.moves, //nolint:wrapcheck // says what was attempted.
		m.partitions, m.leaderless, m.underReplicated, m.started, m.waiting)
}

func gauge(name, help string) prometheus.Gauge {
	return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// show sets the gauges; zero Totals are those of a coordinator that stands by.
func (m *Metrics) show(t Totals) {
	m.partitions.Set(float64(t.Partitions))
	m.leaderless.Set(float64(t.WithoutLeader))
	m.underReplicated.Set(float64(t.UnderReplicated))
	m.started.Set(float64(t.MovesStarted))
	m.waiting.Set(float64(t.MovesWaiting))
}
