package scrub

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	bytes  prometheus.Counter
	faults prometheus.Counter
	faulty prometheus.Gauge
	pass   prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		bytes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_scrub_bytes_total", Help: "Bytes of sealed segments that were read again to find damage.",
		}),
		faults: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_scrub_faults_total", Help: "Sealed segments that were found damaged when they were read again.",
		}),
		faulty: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sq_broker_scrub_faulty_segments", Help: "Sealed segments on this disk that are known to be damaged since the start of the broker.",
		}),
		pass: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "sq_broker_scrub_last_pass_timestamp_seconds",
			Help: "When all sealed segments of the disk had been read again, in seconds since 1970; 0 = not yet since the start of the broker.",
		}),
	}
	for _, c := range []prometheus.Collector{m.bytes, m.faults, m.faulty, m.pass} {
		if err := reg.Register(c); err != nil {
			return nil, err //nolint:wrapcheck // New says what was attempted.
		}
	}
	return m, nil
}
