package replica

import (
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/writer"
)

// newWriter makes what changes the log.
func (r *Replica) newWriter() *writer.Writer {
	return writer.New(writer.Config{
		Log: r.wal, Seat: r.seat, Workers: r.deps.Workers, Clock: r.deps.Clock, SyncSeconds: r.deps.Metrics.syncSeconds,
		Post: r.mail.Post, Host: host{r},
	})
}

// host is the replica as its writer sees it.
type host struct{ *Replica }

// Written implements writer.Host.
func (r host) Written(generation uint64, end partition.Offset) {
	r.step(quorum.Written{Generation: generation, End: end})
}

// Persisted implements writer.Host.
func (r host) Persisted(generation uint64, end partition.Offset) {
	r.synced = r.time.Elapsed
	r.step(quorum.Persisted{Generation: generation, End: end})
}

// Unwritten implements writer.Host: it takes back what the disk had no room for, and what was to follow it.
func (r host) Unwritten(from partition.Offset, why error) {
	r.deps.NoRoom()
	r.retryAt = r.time.Elapsed + retryWait
	r.later(func() {}) // a round to try again in
	r.log.Warn("cannot append, the batches are refused", "offset", from, "err", why)
	r.waiting.Cut(from, fault.Wrap("publish", why))
	r.admin.Cut(from, fault.Wrap("append control batch", why))
	r.step(quorum.Unwritten{Generation: r.core.Report().Generation, From: from})
}

// Failed implements writer.Host.
func (r host) Failed(err error) { r.fail(fault.Wrap("write log of "+r.cfg.Partition.String(), err)) }

// syncByInterval asks for the sync of an interval policy when it is due.
func (r *Replica) syncByInterval() {
	if i := r.cfg.Sync.Interval; i > 0 && r.io.Unsynced() && r.time.Elapsed-r.synced >= i {
		report := r.core.Report()
		r.io.Sync(report.Generation, report.End)
	}
}
