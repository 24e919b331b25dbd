package replica

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// compaction is what a replica does about a topic with cleanup compact. A pass runs beside the replica's goroutine: it reads and writes on bulk
// workers, slice by slice, and asks that goroutine for each Compact. What is committed is then installed, segment by segment, in the log's order.
type compaction struct {
	past    compact.Past
	running bool  // a pass
	retryAt int64 // elapsed nanoseconds; no pass begins before
	// installing: a compacted file is on its way into its place. stuck: one that the log names is not here, and later ones must wait for it.
	installing, stuck bool
	// waiting, if set, is told when everything committed is in its place, or why it is not.
	waiting func(error)
}

const (
	compactRetry        = 30 * time.Second
	compactRetryCorrupt = time.Hour
)

// startCompaction begins a pass if one is due and no other replica of the disk has its turn.
func (r *Replica) startCompaction() {
	topic, c, turn := r.topic.Load(), &r.compact, r.deps.Compact
	if turn == nil || topic.Cleanup != topology.CleanupCompact || c.running || c.installing || c.stuck || int64(r.time.elapsed) < c.retryAt {
		return
	}
	if !r.core.Leads() || !r.admin.idle() {
		return // a Compact of an earlier pass may be on its way
	}
	// Records in the bucket are out of reach: a tombstone may shadow one of them.
	whole := r.fold.Tier.TierEnd() <= r.fold.Tier.LogStart()
	plan, due := c.past.Next(r.compactable(), whole, durationOf(topic.TombstoneAge), r.time.expiry)
	if !due || !turn.Take() {
		return
	}
	c.running = true
	past := c.past
	r.background(func(ctx context.Context) {
		p := pass{r: r, plan: plan}
		r.deps.Metrics.compaction.running.Set(1)
		err := p.run(ctx)
		r.deps.Metrics.compaction.running.Set(0)
		turn.Give()
		r.mail.post(func() { r.endCompaction(past.Done(plan, p.full, p.tombstone), err) })
	})
}

// endCompaction takes in what became of a pass.
func (r *Replica) endCompaction(past compact.Past, err error) {
	r.compact.running = false
	switch {
	case err == nil:
		r.compact.past = past
		r.deps.Metrics.compaction.passes.Inc()
		return
	case fault.Is(err, fault.DiskPoisoned):
		r.fail(fault.Wrap("compact "+r.cfg.Partition.String(), err))
		return
	case fault.Is(err, fault.Corrupt):
		r.compact.retryAt = int64(r.time.elapsed + compactRetryCorrupt)
	default:
		r.compact.retryAt = int64(r.time.elapsed + compactRetry)
	}
	r.deps.Metrics.compaction.failures.Inc()
	r.log.Warn("cannot compact, trying again later", "err", err)
}

// compactable gives the segments that are sealed here and not in the bucket, oldest first.
func (r *Replica) compactable() []compact.Segment {
	known := r.sealedHere()
	var out []compact.Segment
	for _, seal := range r.fold.Tier.Seals() {
		s, ok := known[seal.Base]
		if !ok || seal.End > r.tier.marked || uint64(s.Size) != seal.Size {
			break
		}
		out = append(out, compact.Segment{Base: seal.Base, End: seal.End, Size: s.Size})
	}
	return out
}

func (r *Replica) sealedHere() map[partition.Offset]wal.SegmentInfo {
	known := map[partition.Offset]wal.SegmentInfo{}
	for _, s := range r.wal.Segments() {
		if s.State == wal.StateSealed {
			known[s.Base] = s
		}
	}
	return known
}

// settleCompacted puts the oldest compacted file in its place that the log names and that is not there, and then the next. After a crash this finishes
// what an earlier life has begun.
func (r *Replica) settleCompacted() {
	c := &r.compact
	if c.installing || c.stuck {
		return
	}
	known := r.sealedHere()
	for _, seal := range r.fold.Tier.Seals() {
		s, ok := known[seal.Base]
		// After a restart the disk may be ahead of what is folded: then the Compact is above the high watermark that is known so far.
		if !ok || seal.End > r.tier.marked || uint64(s.Size) < seal.Size || uint64(s.Size) == seal.Size && s.SHA256 == seal.SHA256 {
			continue
		}
		c.installing = true
		r.install(seal, s.Size)
		return
	}
	r.installed(nil)
}

// install checks a compacted file and puts it in its place.
func (r *Replica) install(seal sealed.Seal, before int64) {
	r.io.inFlight.Add(1)
	r.deps.Workers.DoBulk(func() {
		defer r.io.inFlight.Done()
		x, err := r.wal.CheckCompacted(seal.Base, int64(seal.Size), seal.SHA256)
		r.mail.post(func() {
			if err != nil {
				r.notInstalled(seal, err)
				return
			}
			r.io.add(op{kind: opCompact, index: x, sum: seal.SHA256, done: func(err error) {
				r.compact.installing = false
				if err != nil { // no room for its snapshot; it is in its place already
					r.log.Warn("cannot install a compacted segment, trying again", "offset", seal.Base, "err", err)
					r.later(r.settleCompacted)
					return
				}
				r.deps.Metrics.compaction.segments.Inc()
				r.deps.Metrics.compaction.saved.Add(float64(before - x.Size))
				r.show()
				r.settleCompacted()
			}})
		})
	})
}

// notInstalled takes in that a compacted file cannot be used. The old one says no less than it, so it stays; but what comes behind it may lack the
// tombstones of what it still has.
func (r *Replica) notInstalled(seal sealed.Seal, err error) {
	r.compact.installing = false
	if _, here := r.sealedHere()[seal.Base]; !here {
		r.settleCompacted() // retention was faster
		return
	}
	if fault.Is(err, fault.DiskPoisoned) {
		r.fail(fault.Wrap("install a compacted segment of "+r.cfg.Partition.String(), err))
		return
	}
	r.compact.stuck = true
	r.log.Error("the log names a compacted segment that is not here, compaction ends", "offset", seal.Base, "err", err)
	r.installed(err)
}

func (r *Replica) installed(err error) {
	if waiting := r.compact.waiting; waiting != nil {
		r.compact.waiting = nil
		waiting(err)
	}
}

// commitCompact has a Compact committed and the file put in its place.
func (r *Replica) commitCompact(ctx context.Context, seal sealed.Seal) error {
	_, err := ask(ctx, r, true, func(answer func(struct{}, error)) {
		r.request(request{
			decide: func() (func(batchcapnp.Control) error, error) {
				if err := r.fold.Tier.CheckCompact(seal); err != nil {
					return nil, err
				}
				return func(c batchcapnp.Control) error { return sealed.FillCompact(c, seal) }, nil
			},
			done: func(err error) {
				if err != nil {
					answer(struct{}{}, err)
					return
				}
				r.compact.waiting = func(err error) { answer(struct{}{}, err) }
				r.settleCompacted()
			},
		})
	})
	return fault.Wrap("commit a compacted segment", err)
}

// pass is one pass over a partition, in its own goroutine.
type pass struct {
	r    *Replica
	plan compact.Plan

	keys      *compact.Keys
	full      partition.Offset
	tombstone int64
}

func (p *pass) run(ctx context.Context) error {
	if err := p.onDisk(func() error { return p.r.wal.DiscardCompacted() }); err != nil {
		return err
	}
	p.keys = compact.NewKeys(p.r.deps.Compact.Memory(), p.plan.From)
	for _, s := range p.plan.Learn {
		if err := p.scan(ctx, s, func(h *batch.Header, msg []byte) (bool, error) {
			p.keys.Learn(h, msg)
			return true, nil
		}, nil); err != nil {
			return err
		}
	}
	p.full = p.keys.Full()
	for _, s := range p.plan.Rewrite {
		if err := p.compact(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// compact rewrites a segment if anything in it is to go.
func (p *pass) compact(ctx context.Context, s compact.Segment) error {
	looker := compact.NewRewriter(p.keys, p.plan.TombstonesBefore, nil)
	goes := false
	err := p.scan(ctx, s, func(h *batch.Header, msg []byte) (bool, error) {
		goes = looker.Look(h, msg)
		return !goes, nil
	}, nil)
	if err != nil {
		return err
	}
	if !goes {
		p.waits(looker.Stats().Tombstone)
		return nil
	}
	var file *segment.Compacted
	if err := p.onDisk(func() (err error) { file, err = p.r.wal.Compacted(s.Base); return err }); err != nil {
		return err
	}
	seal, changed, err := p.rewrite(ctx, s, file)
	if err != nil || !changed {
		if left := p.onDisk(file.Abandon); err == nil {
			err = left
		}
		return err
	}
	return p.r.commitCompact(ctx, seal)
}

// rewrite fills the file of a compacted segment and makes it durable.
func (p *pass) rewrite(ctx context.Context, s compact.Segment, file *segment.Compacted) (seal sealed.Seal, changed bool, err error) {
	writer := compact.NewRewriter(p.keys, p.plan.TombstonesBefore, file.Append)
	written := int64(0)
	err = p.scan(ctx, s, func(h *batch.Header, msg []byte) (bool, error) { return true, writer.Add(h, msg) }, func() (int64, error) {
		n := file.Size() - written
		written += n
		return n, file.Sync()
	})
	if err != nil {
		return seal, false, err
	}
	if err := p.onDisk(writer.Finish); err != nil {
		return seal, false, err
	}
	stats := writer.Stats()
	p.waits(stats.Tombstone)
	if !stats.Changed() {
		return seal, false, nil
	}
	seal = sealed.Seal{Base: s.Base, End: s.End}
	err = p.onDisk(func() error {
		size, sum, err := file.Finish()
		seal.Size, seal.SHA256 = uint64(size), sum
		return err
	})
	m := &p.r.deps.Metrics.compaction
	m.written.Add(float64(stats.BytesOut))
	m.records.Add(float64(stats.RecordsIn - stats.RecordsOut))
	return seal, true, err
}

// waits takes in that a segment has tombstones which are too young to go.
func (p *pass) waits(tombstone int64) {
	if tombstone != 0 && (p.tombstone == 0 || tombstone < p.tombstone) {
		p.tombstone = tombstone
	}
}

// scan visits the batches of a segment, a slice at a time, as fast as the disk's turn allows. behind is called on the worker at the end of each
// slice and gives what else was read or written; nil = nothing.
func (p *pass) scan(ctx context.Context, s compact.Segment, visit func(*batch.Header, []byte) (bool, error), behind func() (int64, error)) error {
	turn := p.r.deps.Compact
	slice, enough := turn.Slice(), false
	for next := s.Base; next < s.End && !enough; {
		var bytes int64
		err := p.onDisk(func() (err error) {
			read := int64(0)
			next, err = p.r.wal.ScanSegment(s.Base, next, func(h batch.Header, msg []byte) (bool, error) {
				more, err := visit(&h, msg)
				enough = !more
				read += int64(len(msg))
				return more && read < slice, err
			})
			p.r.deps.Metrics.compaction.read.Add(float64(read))
			bytes = read
			if err == nil && behind != nil {
				var n int64
				n, err = behind()
				bytes += n
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := turn.Wait(ctx, bytes); err != nil {
			return fault.Wrap("compact", err)
		}
	}
	return nil
}

// onDisk has a piece of work done by a bulk worker and waits for it.
func (p *pass) onDisk(work func() error) error {
	done := make(chan error, 1)
	p.r.deps.Workers.DoBulk(func() { done <- work() })
	return <-done
}
