package replica

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// sealWaiter waits until the log is sealed up to end.
type sealWaiter struct {
	end  partition.Offset
	done func(SealResult, error)
}

// Seal cuts the open segment, if it holds records, and waits until everything that is closed is sealed. Errors: NotLeader, OutcomeUnknown.
func (r *Replica) Seal(ctx context.Context) (SealResult, error) {
	return ask(ctx, r, true, func(answer func(SealResult, error)) {
		if !r.core.CanPropose() {
			answer(SealResult{}, fault.Wrap("seal", r.notLeader()))
			return
		}
		if r.core.Report().SegmentData {
			r.step(quorum.SealRequested{Time: r.time.Micros})
		}
		end := r.closing.End()
		if end <= r.tier.marked {
			answer(SealResult{SealedEnd: r.tier.marked, HighWatermark: r.core.HighWatermark()}, nil)
			return
		}
		r.seals = append(r.seals, sealWaiter{end: end, done: answer})
	})
}

// findClosed puts the segments that have ended and that the log does not seal yet in the queue: what an earlier leader, or life, left. They may be
// sealed on disk: where acks do not wait for a sync, a power cut may have taken the Seal.
func (r *Replica) findClosed() {
	open := r.core.Report().SegmentBase
	for _, s := range r.wal.Segments() {
		if s.State != wal.StateOpen && s.Base != open && s.End > r.fold.Tier.SealedEnd() {
			r.closing.Add(s.Base, s.End)
		}
	}
}

// digest has the digest of the next closed segment computed.
func (r *Replica) digest() {
	if !r.core.Leads() {
		return
	}
	for {
		base, end, ok := r.closing.Digest(r.core.Report().Written)
		if !ok {
			return
		}
		r.bulk(func() {
			size, sum, err := r.wal.Digest(base)
			if fault.Is(err, fault.Corrupt) {
				r.examine(base)
			}
			r.mail.Post(func() {
				switch {
				case fault.Is(err, fault.Corrupt):
					r.undigested(base, err)
					return
				case err != nil:
					r.fail(fault.Wrap("compute digest of segment", err))
					return
				}
				r.closing.Digested(sealed.Seal{Base: base, End: end, Size: uint64(size), SHA256: sum})
			})
		})
	}
}

// undigested takes in that a closed segment cannot be read: it is not sealed, and not lost either; all else goes on. It may be read again.
func (r *Replica) undigested(base partition.Offset, err error) {
	r.log.Error("cannot read a closed segment, it stays unsealed", "offset", base, "err", err)
	r.failSeals(err)
	r.after(unreadableWait, func() { r.closing.Undigested(base) })
}

// markSealed has the log take note of the segments whose Seal is committed.
func (r *Replica) markSealed() {
	for _, seal := range r.fold.TakeSeals() {
		if seal.End <= r.wal.Start() { // its Seal comes behind the place where this log was begun anew
			r.tier.marked = max(r.tier.marked, seal.End)
			r.fold.Sealed(seal.End)
		}
		if seal.End > r.tier.marked {
			r.tier.toMark = append(r.tier.toMark, toMark{seal, r.closing.Made(seal)})
		}
		r.closing.Sealed(seal.End)
	}
	r.markNext()
}

// markNext marks the next of them, with the snapshot at its end. One at a time: the log takes them in order.
func (r *Replica) markNext() {
	if r.tier.marking || len(r.tier.toMark) == 0 {
		return
	}
	if !r.tier.toMark[0].compared {
		r.compare(r.tier.toMark[0].Seal)
		return
	}
	seal := r.tier.toMark[0].Seal
	snapshot, ok := r.fold.Boundary(seal.End)
	if !ok {
		r.fail(fault.Errorf(fault.Internal, "seal segment %d: there is no snapshot at its end %d", seal.Base, seal.End))
		return
	}
	r.tier.marking = true
	mark := func() error { return r.wal.MarkSealed(seal.Base, seal.SHA256, snapshot) }
	r.io.Change(mark, func(err error) { r.marked(seal, err) })
}

// compare holds a Seal that another process made, or an earlier life, against the own file: replicas' segments are the same bytes.
func (r *Replica) compare(seal sealed.Seal) {
	r.tier.marking = true
	r.bulk(func() {
		size, sum, err := r.wal.Digest(seal.Base)
		r.mail.Post(func() {
			r.tier.marking = false
			switch {
			case fault.Is(err, fault.Corrupt):
				r.log.Error("cannot read a segment that is to be sealed, it stays unsealed", "offset", seal.Base, "err", err)
				r.tier.marking = true
				r.after(unreadableWait, func() {
					r.tier.marking = false
					r.markNext()
				})
			case err != nil:
				r.fail(fault.Wrap("compute digest of segment", err))
			case uint64(size) != seal.Size || sum != seal.SHA256:
				r.fail(fault.Errorf(fault.Corrupt, "segment [%d, %d) has %d bytes with digest %x, its seal says %d, %x",
					seal.Base, seal.End, size, sum[:4], seal.Size, seal.SHA256[:4]))
			default:
				r.tier.toMark[0].compared = true
				r.markNext()
			}
		})
	})
}

// marked takes in that a segment is sealed on disk.
func (r *Replica) marked(seal sealed.Seal, err error) {
	if err != nil {
		r.log.Warn("cannot mark a segment sealed, trying again", "offset", seal.Base, "err", err)
		r.later(func() {
			r.tier.marking = false
			r.markNext()
		})
		return
	}
	r.tier.marking, r.tier.toMark = false, r.tier.toMark[1:]
	r.deps.Metrics.seals.Inc()
	r.fold.Sealed(seal.End)
	r.tier.marked = max(r.tier.marked, seal.End)
	r.changed = true
	r.markNext()
	r.show()
	waiting := r.seals[:0]
	for _, w := range r.seals {
		if w.end > r.tier.marked {
			waiting = append(waiting, w)
			continue
		}
		w.done(SealResult{SealedEnd: r.tier.marked, HighWatermark: r.core.HighWatermark(), Sealed: true}, nil)
	}
	r.seals = waiting
}

// failSeals tells those who wait for a Seal that it may not come.
func (r *Replica) failSeals(cause error) {
	for _, w := range r.seals {
		w.done(SealResult{}, &fault.Error{Kind: fault.OutcomeUnknown, Op: "seal", Err: cause})
	}
	r.seals = nil
}
