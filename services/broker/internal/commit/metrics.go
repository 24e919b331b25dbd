package commit

import "github.com/prometheus/client_golang/prometheus"

// metrics counts what the committer of a disk does.
type metrics struct {
	groups      prometheus.Counter
	entries     prometheus.Histogram
	bytes       prometheus.Counter
	direct      prometheus.Counter
	checkpoints prometheus.Counter
	used        prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sq", Subsystem: "broker", Name: name, Help: help})
	}
	m := &metrics{
		groups: counter("journal_groups_total", "Groups of appends that one sync of the journal made durable."),
		entries: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sq", Subsystem: "broker", Name: "journal_group_logs",
			Help: "Logs whose appends one sync of the journal made durable.", Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
		bytes:       counter("journal_redo_bytes_total", "Bytes of appends that were copied into the journal."),
		direct:      counter("log_direct_syncs_total", "Appends that were made durable by a sync of their own file."),
		checkpoints: counter("journal_checkpoints_total", "Checkpoints that synced files and gave room in the journal back."),
		used: prometheus.NewGauge(prometheus.GaugeOpts{
			Namespace: "sq", Subsystem: "broker", Name: "journal_live_bytes", Help: "Bytes of the journal that hold what files may lack.",
		}),
	}
	for _, c := range []prometheus.Collector{m.groups, m.entries, m.bytes, m.direct, m.checkpoints, m.used} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}
