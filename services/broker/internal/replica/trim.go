package replica

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/petition"
	"github.com/seedqueue/sq/services/broker/internal/producer"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// housekeeper looks after what nobody asks for.
type housekeeper struct {
	last     int64 // elapsed nanoseconds at the last look
	due      bool
	dropping bool // a DropBefore is with the disk
	logged   bool // a request for the log is under way
}

// Trim moves the log start to before, for good, or with localOnly frees local segments that an exported manifest covers, up to before (0 = all
// there are). Answers when it is done. Errors: OffsetOutOfRange above the high watermark, NotLeader, OutcomeUnknown.
func (r *Replica) Trim(ctx context.Context, before partition.Offset, localOnly bool) (TrimResult, error) {
	return ask(ctx, r, true, func(answer func(TrimResult, error)) {
		done := func(err error) {
			if err != nil {
				answer(TrimResult{}, fault.Wrap("trim", err))
				return
			}
			answer(TrimResult{LogStart: r.fold.Tier.LogStart(), LocalStart: r.localStart()}, nil)
		}
		switch hw := r.core.HighWatermark(); {
		case !r.core.Leads():
			done(r.notLeader())
		case localOnly:
			to := r.tier.exportedEnd
			if before > 0 {
				to = min(to, before)
			}
			r.drop(max(to, r.fold.Tier.LogStart()), done)
		case before > hw:
			done(&fault.Error{
				Kind: fault.OffsetOutOfRange, Offset: uint64(hw), Err: fault.Errorf(fault.OffsetOutOfRange, "offset %d is above the high watermark %d", before, hw),
			})
		default:
			r.trimTo(before, func(err error) {
				if err != nil {
					done(err)
					return
				}
				r.kept.due = true
				r.drop(r.fold.Tier.LogStart(), done)
			})
		}
	})
}

// trimTo moves the log start by a record.
func (r *Replica) trimTo(to partition.Offset, done func(error)) {
	r.request(petition.Petition{
		Decide: func() (func(batchcapnp.Control) error, error) {
			if to <= r.fold.Tier.LogStart() {
				return nil, nil
			}
			return func(c batchcapnp.Control) error { return sealed.FillTrim(c, to) }, nil
		},
		Done: done,
	})
}

// localStart is the first offset that can be read here.
func (r *Replica) localStart() partition.Offset { return max(r.wal.Start(), r.fold.Tier.LogStart()) }

// drop removes whole sealed segments below to.
func (r *Replica) drop(to partition.Offset, done func(error)) {
	if to = min(to, r.tier.marked); to <= r.wal.Start() {
		done(nil)
		return
	}
	r.io.Change(func() error { return r.wal.DropBefore(to) }, func(err error) {
		r.core.TrimStart(r.wal.Start())
		r.show()
		done(err)
	})
}

// keepHouse looks at retention now and then: the log start, what the bucket may forget, local data, idle producers.
func (r *Replica) keepHouse() {
	elapsed := int64(r.time.Elapsed)
	if !r.kept.due && elapsed-r.kept.last < int64(housekeeping) {
		return
	}
	r.kept.last, r.kept.due = elapsed, false
	topic := r.topic.Load()
	pieces, open := r.pieces()
	r.dropLocal(pieces, open)
	if !r.core.CanPropose() {
		return
	}
	if topic.Cleanup == topology.CleanupCompact && r.admin.Idle() { // else a Compact of an earlier pass may be on its way
		r.compaction.Start(durationOf(topic.TombstoneAge), r.time.Elapsed, r.time.Expiry)
	}
	if r.kept.logged || !r.admin.Idle() {
		return
	}
	retention := sealed.Retention{Time: durationOf(topic.RetentionTime), Bytes: topic.RetentionBytes}
	keys := r.fold.Tier.Droppable()
	expired := r.fold.Producers.Expirable(r.time.Expiry)
	switch start := retention.LogStart(pieces, open, r.time.Expiry); {
	case start > r.fold.Tier.LogStart():
		r.kept.logged = true
		r.trimTo(start, r.kept.recorded)
	case len(keys) > 0:
		r.record(func(c batchcapnp.Control) error {
			return sealed.FillDrop(c, keys, r.time.Expiry+sealed.DropGrace.Microseconds())
		})
	case len(expired) > 0:
		r.record(func(c batchcapnp.Control) error { return producer.FillExpire(c, expired) })
	}
}

func (h *housekeeper) recorded(error) { h.logged, h.due = false, true }

func (r *Replica) record(fill func(batchcapnp.Control) error) {
	r.kept.logged = true
	r.request(petition.Petition{Decide: func() (func(batchcapnp.Control) error, error) { return fill, nil }, Done: r.kept.recorded})
}

// dropLocal frees local segments that are below the log start, or that the bucket has and local retention does not want.
func (r *Replica) dropLocal(pieces []sealed.Piece, open int64) {
	if r.kept.dropping {
		return
	}
	topic := r.topic.Load()
	to := r.fold.Tier.LogStart()
	if !topic.TierDisabled {
		local := sealed.Local{Time: durationOf(topic.LocalTime), Bytes: topic.LocalBytes}
		start := r.wal.Start()
		i := 0
		for i < len(pieces) && pieces[i].End <= start {
			i++
		}
		to = max(to, local.Start(pieces[i:], open, r.time.Expiry, r.tier.exportedEnd))
	}
	if min(to, r.tier.marked) > r.wal.Start() {
		r.kept.dropping = true
		r.drop(to, func(err error) {
			r.kept.dropping = false
			if err != nil {
				r.log.Warn("cannot drop local segments", "err", err, "offset", to)
			}
		})
	}
}

// pieces gives the finished segments from the log start on, in the bucket or here, and the bytes of the open one.
func (r *Replica) pieces() (pieces []sealed.Piece, open int64) {
	t := r.fold.Tier
	var end partition.Offset
	for _, s := range t.TieredFrom(t.LogStart()) {
		pieces = append(pieces, sealed.Piece{Base: s.Base, End: s.End, Size: int64(s.Size), LastAppendTime: s.LastAppendTime})
		end = s.End
	}
	for _, s := range r.wal.Segments() {
		switch {
		case s.State != wal.StateSealed || s.End > r.tier.marked:
			open += s.Size
		case s.End > t.LogStart() && s.Base >= end:
			pieces = append(pieces, sealed.Piece{Base: s.Base, End: s.End, Size: s.Size, LastAppendTime: s.LastAppendTime})
		}
	}
	return pieces, open
}
