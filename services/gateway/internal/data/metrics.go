package data

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/proto/frame"
)

// Calls of the data plane, as metrics and spans name them.
const (
	callPublish      = "publish"
	callFetch        = "fetch"
	callMetadata     = "metadata"
	callListOffsets  = "list-offsets"
	callInitProducer = "init-producer"
	callOther        = "other"
)

// resultOK is how a call ends that has no error.
const resultOK = "ok"

// bound are a call's metrics for the usual end, looked up once: a publish is short.
type bound struct {
	ok      prometheus.Counter
	seconds prometheus.Observer
}

type metrics struct {
	requests     *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	bound        map[string]bound
	publishBytes prometheus.Counter
	fetchBytes   prometheus.Counter
}

func newMetrics(registry *prometheus.Registry, stats func() frame.ServerStats) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sq_gateway_data_requests_total",
			Help: "Requests of the data plane by call and by how they ended: ok, or the kind of the error.",
		}, []string{"call", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "sq_gateway_data_seconds",
			Help:    "Time from a request's arrival to its answer, in seconds. Fetches wait for records.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}, []string{"call"}),
		publishBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_gateway_publish_bytes_total",
			Help: "Bytes of batches that were stored.",
		}),
		fetchBytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_gateway_fetch_bytes_total",
			Help: "Bytes of batches that were handed to clients.",
		}),
	}
	m.bound = map[string]bound{}
	for _, call := range []string{callPublish, callFetch, callMetadata, callListOffsets, callInitProducer} {
		m.bound[call] = bound{ok: m.requests.WithLabelValues(call, resultOK), seconds: m.seconds.WithLabelValues(call)}
	}
	registry.MustRegister(m.requests, m.seconds, m.publishBytes, m.fetchBytes)
	registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sq_gateway_data_connections",
			Help: "Open connections of the data plane.",
		}, func() float64 { return float64(stats().Connections) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_gateway_data_malformed_total",
			Help: "Connections that were ended for what they sent.",
		}, func() float64 { return float64(stats().Malformed) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_gateway_data_refused_total",
			Help: "Connections that were refused because there were too many.",
		}, func() float64 { return float64(stats().Refused) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sq_gateway_data_over_budget_total",
			Help: "Publishes that were refused because their bodies had no room in memory.",
		}, func() float64 { return float64(stats().OverBudget) }),
	)
	return m
}
