package api

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/telemetry"
)

// overloadedRetry is the hint of an Overloaded answer.
const overloadedRetry = 200 * time.Millisecond

// Metrics of a Server.
type Metrics struct {
	requests *prometheus.CounterVec
	bytes    prometheus.Counter
}

// NewMetrics makes and registers them.
func NewMetrics(registry *prometheus.Registry) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_tierer_coldread_requests_total", Help: "Cold reads, by call and result: ok, or the kind of the error.",
		}, []string{"call", "result"}),
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_tierer_coldread_bytes_total", Help: "Bytes of batches that cold reads were answered with.",
		}),
	}
	return m, telemetry.Register(registry, m.requests, m.bytes) //nolint:wrapcheck // says what was attempted.
}
