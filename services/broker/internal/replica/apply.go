package replica

import (
	"context"
	"errors"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// apply carries out one effect of the core.
func (r *Replica) apply(effect quorum.Effect) {
	switch e := effect.(type) {
	case quorum.PersistPromise:
		r.persistPromise(e)
	case quorum.AppendLog:
		r.appendLog(e)
	case quorum.SyncLog:
		r.io.Sync(e.Generation, e.End)
	case quorum.TruncateLog:
		r.fold.Cut(e.To)
		r.closing.Cut(e.To)
		r.waiting.Cut(e.To, fault.Errorf(fault.OutcomeUnknown, "append: a later leader has cut the log at %d", e.To))
		r.io.Truncate(e.To)
	case quorum.Activate:
		r.activate(e)
	case quorum.Reread:
		r.reread()
	case quorum.Commit:
		r.commit(e)
	case quorum.Cut:
		r.closing.Add(e.Base, e.End)
	case quorum.Lead:
		r.deps.Metrics.elections.Inc()
		r.log.Info("leads", "epoch", e.Epoch, "offset", e.Start)
		r.lossy = e.Lossy
		r.findClosed()
	case quorum.StepDown:
		r.stepDown(e)
	case quorum.Quarantine:
		r.fail(fault.Errorf(fault.Corrupt, "quarantine replica %s of %s: %s", r.cfg.Self.Replica, r.cfg.Partition, e.Reason))
	case quorum.CaughtUp:
		r.bulk(func() {
			if err := r.damage.CaughtUp(); err != nil {
				r.log.Warn("cannot note that the end of the log is caught up", "err", err)
			}
		})
	case quorum.Unfit:
		r.unfit = e.Reason
		r.log.Error("replica does not stand for election", "epoch", e.Epoch, "reason", e.Reason)
	case quorum.Send:
		r.out.Send(e)
	case quorum.ServeFetch:
		r.out.Serve(e)
	case quorum.Mend:
		r.mend(e)
	case quorum.Reinstall:
		r.giveInstall(e)
	case quorum.TakeInstall:
		r.takeInstall(e.Install)
	case quorum.ReadIndexed:
		r.readIndexed(e.HighWatermark)
	}
}

// persistPromise makes a promise durable in the disk's journal.
func (r *Replica) persistPromise(e quorum.PersistPromise) {
	r.inFlight.Add(1)
	r.deps.Workers.Do(func() {
		defer r.inFlight.Done()
		var err error
		if !mutant.Is(mutant.VolatilePromise) {
			err = errors.Join(r.deps.Journal.Put(journal.Promise(r.cfg.Self.Replica, e.Epoch)), r.deps.Journal.Sync())
		}
		r.mail.Post(func() {
			switch {
			case err == nil:
				r.step(quorum.Promised(e))
			case fault.Is(err, fault.DiskFull):
				r.log.Warn("cannot promise an epoch, trying again", "epoch", e.Epoch, "err", err)
				r.later(func() { r.persistPromise(e) })
			default:
				r.fail(fault.Wrap("promise an epoch of "+r.cfg.Partition.String(), err))
			}
		})
	})
}

// appendLog folds a group and queues it for the disk.
func (r *Replica) appendLog(e quorum.AppendLog) {
	batches := make([][]byte, len(e.Entries))
	var bytes int64
	for i := range e.Entries {
		entry := &e.Entries[i]
		if !r.blind {
			if err := r.fold.Add(&entry.Header, entry.Msg); err != nil {
				r.fail(err)
				return
			}
		}
		batches[i] = entry.Msg
		bytes += int64(entry.Size)
		if !entry.IsControl() {
			r.deps.Metrics.batches.Inc()
			r.deps.Metrics.records.Add(float64(entry.RecordCount))
		}
	}
	release := r.release
	r.release = nil
	if r.arrived != nil {
		release, r.arrived = append(release, r.arrived), nil
	}
	r.deps.Metrics.bytes.Add(float64(bytes))
	r.deps.Metrics.groups.Observe(float64(len(e.Entries)))
	// Other replicas get it while it is synced here.
	early := r.cfg.Sync.EveryBatch() && (r.counting == quorum.CountWritten || r.core.Replicated())
	r.io.Append(e.Generation, e.End, batches, release, early)
}

// activate asks for the compare-and-swap that ends the election.
func (r *Replica) activate(e quorum.Activate) {
	read := r.core.Assigned()
	r.errands.Go(func(ctx context.Context) {
		won := r.deps.Activator.Activate(ctx, r.cfg.Partition, read, e.Revision, e.Start)
		r.mail.Post(func() { r.step(quorum.Activation{Epoch: e.Epoch, Won: won}) })
	})
}

// reread looks the assignment up until it is answered.
func (r *Replica) reread() {
	r.errands.Go(func(ctx context.Context) {
		a, revision, err := r.deps.Activator.Reread(ctx, r.cfg.Partition)
		r.mail.Post(func() {
			if err != nil {
				r.later(r.reread)
				return
			}
			r.step(quorum.Assigned{Assignment: a, Revision: revision, Reread: true, Time: r.time.Micros})
		})
	})
}

// later does something on the replica's goroutine after a while.
func (r *Replica) later(do func()) { r.after(retryWait, do) }

func (r *Replica) after(wait time.Duration, do func()) {
	r.errands.After(wait, func() { r.mail.Post(do) })
}

// commit folds what is committed now and answers those who waited for it.
func (r *Replica) commit(e quorum.Commit) {
	if r.blind {
		r.show()
		return
	}
	if err := r.fold.Commit(e.HighWatermark); err != nil {
		r.fail(err)
		return
	}
	r.markSealed()
	if r.fold.TakeCompacted() {
		r.compaction.Settle()
	}
	r.show() // whoever is answered finds what he was answered
	r.waiting.Commit(e.HighWatermark)
	r.admin.Committed(e.HighWatermark)
}

// stepDown tells those who waited that nobody knows.
func (r *Replica) stepDown(e quorum.StepDown) {
	r.out.Reset()
	r.deps.Metrics.stepDowns.Inc()
	r.log.Info("steps down", "epoch", e.Epoch, "reason", e.Reason)
	r.waiting.All(&fault.Error{
		Kind: fault.OutcomeUnknown, Op: "publish", Epoch: uint64(e.Epoch), Err: fault.Errorf(fault.NotLeader, "epoch %d ended: %s", e.Epoch, e.Reason),
	})
	r.admin.Stop(&fault.Error{Kind: fault.OutcomeUnknown, Op: "append control batch", Err: fault.Errorf(fault.NotLeader, "epoch %d ended", e.Epoch)})
	r.refuseQueue(r.notLeader())
	r.failSeals(fault.Errorf(fault.NotLeader, "epoch %d ended", e.Epoch))
	r.reads.Fail(fault.Wrap("confirm that this replica leads", r.notLeader()))
}

// notLeader is the refusal of a replica that does not lead.
func (r *Replica) notLeader() error {
	return &fault.Error{Kind: fault.NotLeader, Op: "publish to " + r.cfg.Partition.String(), Epoch: uint64(r.core.Report().Promised)}
}

// Evidence is what the journal should remember of a log: how far its files are durable, a floor of the high watermark, and where acks do not wait for
// that, how far they went. state changes with it.
func (r *Replica) Evidence() (records []journal.Record, state [3]partition.Offset) {
	v := r.view.Load()
	mark, hw, acked := r.wal.Mark(), min(v.hw, r.wal.Persisted()), partition.Offset(0)
	if v.durability != wirecapnp.Durability_fsyncQuorum {
		acked = v.hw
	}
	self := r.cfg.Self.Replica
	records = []journal.Record{journal.Mark(self, mark), journal.HW(self, hw)}
	if kept, ok := r.deps.Journal.Replica(self); ok && kept.Acked != acked {
		records = append(records, journal.Acked(self, acked))
	}
	return records, [3]partition.Offset{mark.Offset, hw, acked}
}
