package replica

import (
	"context"
	"errors"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// Fetch gives whole batches from an offset on, below the high watermark, and waits for one if there is none. Errors: OffsetTrimmed,
// OffsetTiered, OffsetOutOfRange, StaleEpoch, NotLeader where waiting here makes no sense, Corrupt, and the end of ctx.
func (r *Replica) Fetch(ctx context.Context, f Fetch) (Fetched, error) {
	var timer <-chan time.Time
	for {
		v := r.view.Load()
		got, ready, err := r.fetchNow(v, f)
		if err != nil || ready || f.Wait <= 0 {
			return got, err
		}
		if timer == nil {
			t := r.deps.Clock.NewTimer(f.Wait)
			defer t.Stop()
			timer = t.C()
		}
		r.errands.Await(func() bool { return r.view.Load() != v || len(timer) > 0 || ctx.Err() != nil })
		select {
		case <-v.changed:
		case <-timer:
			return r.fetched(v, f.Offset), nil
		case <-ctx.Done():
			return Fetched{}, fault.Wrap("fetch", ctx.Err())
		case <-r.done:
			return Fetched{}, fault.Wrap("fetch", errStopped)
		}
	}
}

func (r *Replica) fetched(v *view, next partition.Offset) Fetched {
	return Fetched{
		Epoch: v.epoch, HighWatermark: v.hw, LogStart: v.logStart, LocalStart: v.start(), NextOffset: next, Durability: v.durability,
	}
}

// start is the first offset that can be read here.
func (v *view) start() partition.Offset { return max(v.localStart, v.logStart) }

// fetchNow answers a fetch as of a view; ready is false if there is nothing to read yet.
func (r *Replica) fetchNow(v *view, f Fetch) (got Fetched, ready bool, err error) {
	got = r.fetched(v, f.Offset)
	switch {
	case f.Epoch > v.epoch:
		return got, false, staleEpoch("fetch", f.Epoch, v.epoch)
	case f.Offset < v.logStart:
		return got, false, &fault.Error{
			Kind: fault.OffsetTrimmed, Offset: uint64(v.logStart), Epoch: uint64(v.epoch),
			Err: fault.Errorf(fault.OffsetTrimmed, "fetch at %d: the log starts at %d", f.Offset, v.logStart),
		}
	case f.Offset < v.localStart:
		return got, false, r.tiered(v, f.Offset)
	case f.Offset < v.readable:
		return r.read(v, f)
	case !v.active:
		// The high watermark may be behind what the caller has seen, and will not move here.
		return got, false, r.inactive("fetch from ", v)
	case f.Offset > v.hw && v.lossy:
		return got, false, &fault.Error{
			Kind: fault.Diverged, Offset: uint64(v.hw), Epoch: uint64(v.epoch),
			Err: fault.Errorf(fault.Diverged, "fetch at %d: records up to there were lost in a power cut, the high watermark is %d", f.Offset, v.hw),
		}
	case f.Offset > v.hw:
		return got, false, &fault.Error{
			Kind: fault.OffsetOutOfRange, Offset: uint64(v.hw), Epoch: uint64(v.epoch),
			Err: fault.Errorf(fault.OffsetOutOfRange, "fetch at %d: the high watermark is %d", f.Offset, v.hw),
		}
	}
	return got, false, nil
}

func (r *Replica) tiered(v *view, offset partition.Offset) error {
	return &fault.Error{
		Kind: fault.OffsetTiered, Offset: uint64(v.localStart), Epoch: uint64(v.epoch),
		Err: fault.Errorf(fault.OffsetTiered, "fetch at %d: the local log starts at %d", offset, v.localStart),
	}
}

func (r *Replica) read(v *view, f Fetch) (got Fetched, ready bool, err error) {
	limit := f.MaxBytes
	if limit <= 0 {
		limit = FetchBytesDefault
	}
	got = r.fetched(v, f.Offset)
	chunk, err := r.wal.Read(f.Offset, v.readable, min(limit, r.cfg.Limits.FetchBytes))
	if fault.Is(err, fault.Corrupt) && r.examine(f.Offset) {
		chunk, err = r.wal.Read(f.Offset, v.readable, min(limit, r.cfg.Limits.FetchBytes))
	}
	switch {
	case errors.Is(err, wal.ErrBelowStart):
		return got, false, r.tiered(r.view.Load(), f.Offset) // dropped since the view was made
	case err != nil:
		return got, false, fault.Wrap("fetch", err)
	}
	chunk.Unreadable = func(at partition.Offset) { r.mail.Post(func() { r.bulk(func() { r.examine(at) }) }) }
	got.Chunk, got.NextOffset = chunk, chunk.NextOffset
	r.deps.Metrics.fetches.Inc()
	r.deps.Metrics.fetchBytes.Add(float64(chunk.Len()))
	return got, true, nil
}

// ListOffset tells where a place in the log is. Errors: StaleEpoch, NotLeader.
func (r *Replica) ListOffset(ctx context.Context, l ListOffset) (ListedOffset, error) {
	v := r.view.Load()
	switch {
	case l.Epoch > v.epoch:
		return ListedOffset{}, staleEpoch("list offsets", l.Epoch, v.epoch)
	case !v.active && (v.unfit == "" || l.Where == Latest): // a log that nobody leads has a start, and no end that is known
		return ListedOffset{}, r.inactive("list offsets of ", v)
	}
	out := ListedOffset{Offset: v.logStart, Epoch: v.epoch, HighWatermark: v.hw, LogStart: v.logStart, LocalStart: v.start()}
	var err error
	switch l.Where {
	case Earliest:
	case Latest:
		if out.Offset, err = ask(ctx, r, false, r.index); err != nil {
			return ListedOffset{}, fault.Wrap("list offsets", err)
		}
		out.HighWatermark = out.Offset
	case AtTime:
		out.Offset, err = r.offsetAt(ctx, v, l.Time)
	}
	return out, err
}

// offsetAt finds the first offset with an append time at or after a time. In the bucket it knows segments only, and gives the base of the one
// that holds it: never too late.
func (r *Replica) offsetAt(ctx context.Context, v *view, time int64) (partition.Offset, error) {
	if v.localStart > v.logStart {
		cold, err := ask(ctx, r, false, func(answer func([]sealed.Segment, error)) { answer(r.fold.Tier.TieredFrom(v.logStart), nil) })
		if err != nil {
			return 0, fault.Wrap("list offsets", err)
		}
		for _, s := range cold {
			if s.End > v.localStart {
				break
			}
			if s.LastAppendTime >= time {
				return max(s.Base, v.logStart), nil
			}
		}
	}
	at, err := r.wal.OffsetAt(time, v.readable)
	if err != nil {
		return 0, fault.Wrap("list offsets", err)
	}
	return min(max(at, v.logStart), v.hw), nil
}

// State describes the replica.
func (r *Replica) State() State {
	v := r.view.Load()
	s := State{
		Epoch: v.epoch, HighWatermark: v.hw, LogStart: v.logStart, LocalStart: v.start(), End: v.end, SealedEnd: v.sealedEnd,
		TierEnd: v.tierEnd, ExportedEnd: v.exportedEnd, Durability: v.durability, Active: v.active, Damaged: v.damaged, Lossy: v.lossy,
		Promised: v.promised, Leader: v.leader, Faulty: v.stopped || v.damaged > 0 || v.unfit != "",
	}
	for _, segment := range r.wal.Segments() {
		s.SizeBytes += uint64(segment.Size)
	}
	return s
}

// Standings tells where the members and learners stand, this replica first; none where it does not lead.
func (r *Replica) Standings(ctx context.Context) ([]Standing, error) {
	return ask(ctx, r, false, func(answer func([]Standing, error)) {
		if !r.core.Leads() {
			answer(nil, nil)
			return
		}
		report := r.core.Report()
		out := []Standing{{Member: r.cfg.Self, Match: report.Durable, HighWatermark: report.HighWatermark}}
		for _, p := range r.core.Peers() {
			out = append(out, Standing{Member: p.Member, Learner: p.Learner, Match: p.Match, HighWatermark: p.HighWatermark, LastHeard: p.Silent})
		}
		answer(out, nil)
	})
}

// Changed is closed when something in State, or the high watermark, has changed since the call.
func (r *Replica) Changed() <-chan struct{} { return r.view.Load().changed }

func durationOf(d topology.Duration) time.Duration { return time.Duration(d) }
