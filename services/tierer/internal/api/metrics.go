package api

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	for _, c := range []prometheus.Collector{m.requests, m.bytes} {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("register cold read metric: %w", err)
		}
	}
	return m, nil
}
