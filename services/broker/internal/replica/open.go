package replica

import (
	"context"
	"errors"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/damage"
	"github.com/seedqueue/sq/services/broker/internal/errand"
	"github.com/seedqueue/sq/services/broker/internal/fold"
	"github.com/seedqueue/sq/services/broker/internal/inbox"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/waitlist"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/wallclock"
)

// Open recovers a replica's log and state and starts its goroutine. kept is what the journal holds of it. It reads the end of the log from the
// newest snapshot on. Damage does not make it fail, unless nothing can be known of what came before or the log contradicts its mark: what can be read is
// served, and quorum decides whether the replica may lead. Errors: Corrupt, DiskPoisoned, DiskFull.
func Open(ctx context.Context, cfg Config, deps Deps, kept journal.Replica) (*Replica, error) {
	var err error
	if cfg.Limits, err = cfg.Limits.withDefaults(); err != nil {
		return nil, err
	}
	hi, lo := cfg.Partition.Topic.Halves()
	tag := batch.PartitionTag(hi, lo, uint32(cfg.Partition.Index))
	r := &Replica{
		cfg: cfg, deps: deps, log: deps.Log.With("partition", cfg.Partition.String()), mail: inbox.New[queued](cfg.Limits.QueueBatches, cfg.Limits.QueueBytes),
		stopping: make(chan struct{}), done: make(chan struct{}), now: wallclock.New(deps.Clock), opened: deps.Clock.Now(),
	}
	r.topic.Store(&cfg.Topic)
	r.waiting = waitlist.New(waiters{r})
	r.counting, r.ackAs = cfg.Sync.Counting(cfg.Topic.Durability)
	log, recovery, err := wal.Open(ctx, wal.Config{
		FS: deps.FS, Dir: cfg.Dir, Tag: tag, Log: r.log, Files: deps.Files,
		Origin: wal.Origin{Offset: kept.Origin.Offset, Chain: kept.Origin.Chain},
		Barrier: func(mark segment.Mark) error {
			if err := deps.Journal.Put(journal.Mark(cfg.Self.Replica, mark)); err != nil {
				return err
			}
			return deps.Journal.Sync()
		},
	}, wal.Evidence{HW: kept.HW, Mark: kept.Mark, Faults: kept.Faults})
	if err != nil {
		return nil, fault.Wrap("open log of "+cfg.Partition.String(), err)
	}
	r.wal, r.seat = log, deps.Commit.Join(cfg.Self.Replica, log)
	r.io, r.out = r.newWriter(), r.newOutbox()
	r.damage, err = damage.Open(damage.Config{Replica: cfg.Self.Replica, Log: log, Journal: deps.Journal, Logger: r.log}, recovery, kept)
	if err == nil {
		err = r.recover(recovery, kept, tag)
	}
	if err != nil {
		return nil, fault.Wrap("recover "+cfg.Partition.String(), errors.Join(err, log.Close()))
	}
	r.time = r.now.Read()
	r.show()
	r.start(ctx)
	return r, nil
}

// start begins the replica's life, which outlives the call that opened it.
func (r *Replica) start(ctx context.Context) {
	r.mail.Signal() // there may be something to mark
	if r.errands = r.deps.Errands; r.errands == nil {
		r.errands = errand.New(ctx, r.deps.Clock)
		go r.run()
	}
}

// recover folds the log into the core's and the fold's state.
func (r *Replica) recover(rec wal.Recovery, kept journal.Replica, tag uint64) error {
	if rec.Cut.Limit > rec.Cut.Position {
		r.log.Warn("log was cut after a crash", "class", rec.Class.String(), "from", rec.Cut.From, "bytes", rec.Cut.Limit-rec.Cut.Position)
	}
	if err := r.loadSnapshot(rec); err != nil {
		return err
	}
	r.core = quorum.New(quorum.Config{
		Self: r.cfg.Self, Incarnation: r.cfg.Incarnation, Tag: tag, Counting: r.counting, SyncEveryGroup: r.cfg.Sync.EveryBatch(),
		Cut: cutPolicy(r.cfg.Topic),
	}, quorum.Recovered{
		Start: rec.Start, End: r.fold.End(), Chain: r.fold.Chain(), Time: r.fold.Time(), Epochs: r.fold.Epochs(),
		Promised: kept.Promise, HighWatermark: max(kept.HW, r.fold.End()), Suspect: rec.Class == segment.Suspect || kept.Ragged,
		Lossy: r.loss(rec, kept),
	})
	if err := r.replay(); err != nil {
		return err
	}
	if found := r.damage.Ranges(); len(found) > 0 {
		if err := r.damage.Keep(); err != nil {
			return err //nolint:wrapcheck // says what was attempted.
		}
		r.core.Step(quorum.Damaged{Ranges: found})
	}
	r.core.Opened()
	if r.core.Report().Suspect && rec.Class != segment.Suspect && !kept.Ragged {
		if err := r.damage.Suspect(); err != nil {
			return err //nolint:wrapcheck // says what was attempted.
		}
	}
	r.compaction = r.newCompaction()
	if end := r.core.End(); end != rec.End || rec.End > r.fold.End() && r.core.Report().End != rec.End {
		return fault.Errorf(fault.Corrupt, "the log ends at %d, its batches end at %d", rec.End, end)
	}
	r.findSealed()
	return nil
}

// loss tells whether records are gone that were acknowledged without a sync, and says so.
func (r *Replica) loss(rec wal.Recovery, kept journal.Replica) bool {
	switch {
	case kept.Acked > rec.End:
		r.deps.Metrics.lost.Add(float64(kept.Acked - rec.End))
		r.log.Error("acknowledged records are lost: their acks did not wait for the disk", "offset", rec.End, "to", kept.Acked)
		return true
	case r.counting == quorum.CountWritten && rec.Class >= segment.Torn:
		r.log.Error("acknowledged records may be lost: their acks did not wait for the disk, and the log had a torn end", "offset", rec.End)
		return true
	default:
		return false
	}
}

// replay folds what lies behind the snapshot. Of records only the headers matter. Where control batches cannot be read, the core goes on and the fold
// does not: it stays at what is known, and nothing is told from it that lies behind.
func (r *Replica) replay() error {
	add := func(h batch.Header, msg []byte, next uint64) error {
		if err := r.core.Replay(&h, next); err != nil {
			return fault.Errorf(fault.Corrupt, "%w", err)
		}
		if r.blind {
			return nil
		}
		if err := r.fold.Add(&h, msg); err != nil {
			return err
		}
		return r.fold.Commit(min(r.core.HighWatermark(), partition.Offset(h.NextOffset())))
	}
	return r.wal.Survey(r.fold.End(), wal.Visitor{
		Batch:  func(h batch.Header, msg []byte) error { return add(h, msg, batch.NextChain(msg)) },
		Header: func(h batch.Header, next uint64) error { return add(h, nil, next) },
		Hole: func(bad segment.Range, chain uint64, unchained bool) error {
			r.blind = true
			r.core.Skip(bad.To, bad.Base, chain, unchained)
			return nil
		},
	})
}

// loadSnapshot begins the fold at the newest snapshot, or where the log begins.
func (r *Replica) loadSnapshot(rec wal.Recovery) error {
	if rec.Snapshot == nil {
		if rec.Start > 0 {
			return fault.Errorf(fault.Corrupt, "the log starts at %d and there is no snapshot of what came before", rec.Start)
		}
		r.fold = fold.New(0, 0)
		return nil
	}
	state, err := fold.Decode(rec.Snapshot)
	if err != nil {
		return err
	}
	if state.End() != rec.SnapshotEnd || state.End() > rec.End {
		return fault.Errorf(fault.Corrupt, "a snapshot of %d says it is of %d, the log ends at %d", rec.SnapshotEnd, state.End(), rec.End)
	}
	r.fold = state
	return nil
}

// findSealed learns what is sealed on disk, and has sealed what the log says and the disk does not.
func (r *Replica) findSealed() {
	for _, s := range r.wal.Segments() {
		if s.State == wal.StateSealed {
			r.tier.marked = max(r.tier.marked, s.End)
		}
	}
	r.tier.marked = max(r.tier.marked, min(r.wal.Start(), r.fold.Tier.SealedEnd()))
	r.markSealed()
	r.compaction.Settle()
}
