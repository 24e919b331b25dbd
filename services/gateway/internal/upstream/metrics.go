package upstream

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	dials   *prometheus.CounterVec
	retries *prometheus.CounterVec
	unknown prometheus.Counter
	cold    *prometheus.CounterVec
	members prometheus.Counter
}

func newMetrics(registry *prometheus.Registry) *metrics {
	m := &metrics{
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_gateway_upstream_dials_total",
			Help: "Connections to brokers and tierers that were made, failed to connect, or were refused at Hello.",
		}, []string{"result"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_gateway_upstream_retries_total",
			Help: "Attempts of a call that were repeated, by why the attempt before had failed.",
		}, []string{"reason"}),
		unknown: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_gateway_publish_unknown_total",
			Help: "Publishes that ended with an unknown outcome.",
		}),
		cold: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_gateway_cold_reads_total",
			Help: "Reads that went to a tierer, by result: served, failed over to the next tierer, or back to the broker.",
		}, []string{"result"}),
	}
	m.members = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sq_gateway_member_reads_total",
		Help: "Reads that a follower answered because the leader could not be asked.",
	})
	registry.MustRegister(m.dials, m.retries, m.unknown, m.cold, m.members)
	return m
}
