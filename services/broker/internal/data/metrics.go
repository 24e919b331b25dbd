package data

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// metrics of the data port. Counters of a call are bound once: the hot path looks nothing up.
type metrics struct {
	calls [callKinds + 1]callMetrics // by Request's member; the last is for what a broker does not serve
}

// callMetrics are those of one kind of call.
type callMetrics struct {
	seconds  prometheus.Observer
	failures *prometheus.CounterVec // by kind
}

func (m *metrics) call(which wirecapnp.Request_Which) *callMetrics {
	if int(which) >= callKinds {
		return &m.calls[callKinds]
	}
	return &m.calls[which]
}

func (m *callMetrics) observe(took time.Duration, err error) {
	m.seconds.Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(fault.KindOf(err).String()).Inc()
	}
}

func newMetrics(registry prometheus.Registerer, frames *frame.Server, panics *atomic.Uint64) (*metrics, error) {
	m := &metrics{}
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sq_broker_call_seconds", Help: "Time from a request's last byte to its answer, by call; long polls include their wait.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 18),
	}, []string{"call"})
	failures := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sq_broker_call_failures_total", Help: "Requests that were answered with an error, by call and kind.",
	}, []string{"call", "kind"})
	stat := func(read func(frame.ServerStats) uint64) func() float64 {
		return func() float64 { return float64(read(frames.Stats())) }
	}
	err := telemetry.Register(registry, seconds, failures,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sq_broker_connections_count", Help: "Connections on the data port.",
		}, func() float64 { return float64(frames.Stats().Connections) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_broker_connections_refused_total", Help: "Connections that were closed because there were too many.",
		}, stat(func(s frame.ServerStats) uint64 { return s.Refused })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_broker_connections_malformed_total", Help: "Connections that were ended for what they sent, or did not send.",
		}, stat(func(s frame.ServerStats) uint64 { return s.Malformed })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_broker_bodies_refused_total", Help: "Requests whose body had no room in the memory budget.",
		}, stat(func(s frame.ServerStats) uint64 { return s.OverBudget })),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_broker_handler_panics_total", Help: "Requests that made their handler panic; each is a bug.",
		}, stat(func(s frame.ServerStats) uint64 { return s.Panics + panics.Load() })),
	)
	for which := range m.calls {
		name := "other"
		if which < callKinds && table[which].span != "" {
			name = wirecapnp.Request_Which(which).String()
		}
		m.calls[which] = callMetrics{
			seconds:  seconds.WithLabelValues(name),
			failures: failures.MustCurryWith(prometheus.Labels{"call": name}),
		}
	}
	return m, err //nolint:wrapcheck // says what was attempted.
}
