package replica

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/services/broker/internal/compaction"
)

// Metrics counts what all replicas of a broker do; no label grows with the number of partitions.
type Metrics struct {
	batches     prometheus.Counter
	records     prometheus.Counter
	bytes       prometheus.Counter
	duplicates  prometheus.Counter
	refused     prometheus.Counter
	unknown     prometheus.Counter
	groups      prometheus.Histogram
	syncSeconds prometheus.Histogram
	fetches     prometheus.Counter
	fetchBytes  prometheus.Counter
	elections   prometheus.Counter
	stepDowns   prometheus.Counter
	seals       prometheus.Counter
	clockJumps  prometheus.Counter
	lost        prometheus.Counter
	compaction  *compaction.Metrics
}

// NewMetrics registers the metrics.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "sq", Subsystem: "broker", Name: name, Help: help})
	}
	m := &Metrics{
		batches:    counter("append_batches_total", "Batches of records that were appended to logs."),
		records:    counter("append_records_total", "Records that were appended to logs."),
		bytes:      counter("append_bytes_total", "Bytes of batches that were appended to logs, control batches included."),
		duplicates: counter("append_duplicates_total", "Batches that were in the log already and were answered without an append."),
		refused:    counter("append_refused_total", "Batches that were refused with nothing appended."),
		unknown:    counter("append_unknown_total", "Batches whose outcome could not be told."),
		groups: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sq", Subsystem: "broker", Name: "append_group_batches",
			Help: "Batches that one write and sync of a partition took.", Buckets: prometheus.ExponentialBuckets(1, 2, 12),
		}),
		syncSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "sq", Subsystem: "broker", Name: "log_sync_seconds",
			Help: "Time that one sync of a log took.", Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		fetches:    counter("fetch_chunks_total", "Chunks of batches that were read from logs."),
		fetchBytes: counter("fetch_bytes_total", "Bytes of batches that were read from logs."),
		elections:  counter("leader_epochs_total", "Epochs that replicas here became the leader of."),
		stepDowns:  counter("leader_stepdowns_total", "Epochs that replicas here led, or tried to lead, and gave up."),
		seals:      counter("segment_seals_total", "Segments whose Seal was committed."),
		clockJumps: counter("clock_jumps_total", "Steps of the wall clock by more than an hour; expiry does not follow them."),
	}
	m.lost = counter("lost_offsets_total", "Offsets of records that were acknowledged without a sync and that a power cut took, found at start.")
	m.compaction = compaction.NewMetrics(reg)
	reg.MustRegister(m.batches, m.records, m.bytes, m.duplicates, m.refused, m.unknown, m.groups, m.syncSeconds, m.fetches, m.fetchBytes,
		m.elections, m.stepDowns, m.seals, m.clockJumps, m.lost)
	return m
}
