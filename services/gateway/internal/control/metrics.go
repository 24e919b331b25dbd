package control

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	calls   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_gateway_api_calls_total",
			Help: "Calls over gRPC, and over REST by way of it, by method and by how they ended: ok, or the kind of the error.",
		}, []string{"method", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sq_gateway_api_seconds",
			Help:    "Time to serve a call over gRPC or REST, in seconds. Fetches wait for records.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"method"}),
	}
	registry.MustRegister(m.calls, m.seconds)
	return m
}
