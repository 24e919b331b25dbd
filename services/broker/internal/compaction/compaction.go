package compaction

import (
	"context"
	"log/slog"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// Host is the replica that a Compaction works for. Functions are called on its goroutine, Bulk and Post also by a pass.
type Host struct {
	Log     *wal.Log
	Table   *sealed.Table // what the committed log says
	Turn    *compact.Turn // nil = nothing is rewritten here
	Metrics *Metrics
	Logger  *slog.Logger
	// Marked is how far the log is sealed on disk.
	Marked func() partition.Offset
	// Bulk has a job done by a bulk worker.
	Bulk func(job func())
	// Run has a pass run beside the replica's goroutine, Post has something done on it, and Later after a while.
	Run   func(pass func(ctx context.Context))
	Post  func(call func()) bool
	Later func(call func())
	// Install has the log put a compacted file in its place, between its other mutations. done gets nil, or what can be tried again.
	Install func(x *segment.Index, sum [32]byte, done func(error))
	// Commit has a Compact committed if the table allows it.
	Commit func(s sealed.Seal, done func(error))
	// Fail ends the replica.
	Fail func(error)
}

// Compaction is what a partition's replica does about compaction.
type Compaction struct {
	h       Host
	past    compact.Past
	running bool          // a pass
	retryAt time.Duration // no pass begins before
	// installing: a compacted file is on its way into its place. stuck: one that the log names is not here, and those behind it must wait for it.
	installing, stuck bool
	// waiting, if set, is told when everything committed is in its place, or why it is not.
	waiting func(error)
	elapsed time.Duration // at the last Start
}

// New makes a Compaction.
func New(h Host) *Compaction { return &Compaction{h: h} }

// Start begins a pass if one is due and no other replica of the disk has its turn. Only a leader calls it, with none of its control batches on their
// way into the log. elapsed is monotonic, now is wall time in microseconds since 1970.
func (c *Compaction) Start(tombstoneAge, elapsed time.Duration, now int64) {
	c.elapsed = elapsed
	if c.h.Turn == nil || c.running || c.installing || c.stuck || elapsed < c.retryAt {
		return
	}
	// Records in the bucket are out of reach: a tombstone may shadow one of them.
	whole := c.h.Table.TierEnd() <= c.h.Table.LogStart()
	plan, due := c.past.Next(c.segments(), whole, tombstoneAge, now)
	if !due || !c.h.Turn.Take() {
		return
	}
	c.running = true
	past := c.past
	c.h.Run(func(ctx context.Context) {
		p := pass{h: &c.h, plan: plan, commit: c.commit}
		c.h.Metrics.running.Set(1)
		err := p.run(ctx)
		c.h.Metrics.running.Set(0)
		c.h.Turn.Give()
		c.h.Post(func() { c.ended(past.Done(plan, p.full, p.tombstone), err) })
	})
}

// ended takes in what became of a pass.
func (c *Compaction) ended(past compact.Past, err error) {
	c.running = false
	switch {
	case err == nil:
		c.past = past
		c.h.Metrics.passes.Inc()
		return
	case fault.Is(err, fault.DiskPoisoned):
		c.h.Fail(fault.Wrap("compact", err))
		return
	case fault.Is(err, fault.Corrupt):
		c.retryAt = c.elapsed + retryCorrupt
	default:
		c.retryAt = c.elapsed + retryWait
	}
	c.h.Metrics.failures.Inc()
	c.h.Logger.Warn("cannot compact, trying again later", "err", err)
}

// segments gives those that are sealed here and not in the bucket, oldest first.
func (c *Compaction) segments() []compact.Segment {
	known := c.here()
	var out []compact.Segment
	for _, seal := range c.h.Table.Seals() {
		s, ok := known[seal.Base]
		if !ok || seal.End > c.h.Marked() || uint64(s.Size) != seal.Size {
			break
		}
		out = append(out, compact.Segment{Base: seal.Base, End: seal.End, Size: s.Size})
	}
	return out
}

func (c *Compaction) here() map[partition.Offset]wal.SegmentInfo {
	known := map[partition.Offset]wal.SegmentInfo{}
	for _, s := range c.h.Log.Segments() {
		if s.State == wal.StateSealed {
			known[s.Base] = s
		}
	}
	return known
}

// Settle puts the oldest compacted file in its place that the log names and that is not there, and then the next. To be called when the table may
// name one: when the log is opened, and when a Compact is committed.
func (c *Compaction) Settle() {
	if c.installing || c.stuck {
		return
	}
	known := c.here()
	for _, seal := range c.h.Table.Seals() {
		s, ok := known[seal.Base]
		// After a restart the disk may be ahead of what is folded: then the Compact is above the high watermark that is known so far.
		if !ok || seal.End > c.h.Marked() || uint64(s.Size) < seal.Size || uint64(s.Size) == seal.Size && s.SHA256 == seal.SHA256 {
			continue
		}
		c.installing = true
		c.install(seal, s.Size)
		return
	}
	c.settled(nil)
}

// install checks a compacted file and puts it in its place.
func (c *Compaction) install(seal sealed.Seal, before int64) {
	c.h.Bulk(func() {
		x, err := c.h.Log.CheckCompacted(seal.Base, int64(seal.Size), seal.SHA256)
		c.h.Post(func() {
			if err != nil {
				c.missing(seal, err)
				return
			}
			c.h.Install(x, seal.SHA256, func(err error) {
				c.installing = false
				if err != nil { // there is no room for its snapshot
					c.h.Logger.Warn("cannot install a compacted segment, trying again", "offset", seal.Base, "err", err)
					c.h.Later(c.Settle)
					return
				}
				c.h.Metrics.segments.Inc()
				c.h.Metrics.saved.Add(float64(before - x.Size))
				c.Settle()
			})
		})
	})
}

// missing takes in that a compacted file cannot be used. The old one says no less than it, so it stays; but what comes behind it may lack the
// tombstones of what it still has.
func (c *Compaction) missing(seal sealed.Seal, err error) {
	c.installing = false
	if _, here := c.here()[seal.Base]; !here {
		c.Settle() // retention was faster
		return
	}
	if fault.Is(err, fault.DiskPoisoned) {
		c.h.Fail(fault.Wrap("install a compacted segment", err))
		return
	}
	c.stuck = true
	c.h.Logger.Error("the log names a compacted segment that is not here, compaction ends", "offset", seal.Base, "err", err)
	c.settled(err)
}

func (c *Compaction) settled(err error) {
	if waiting := c.waiting; waiting != nil {
		c.waiting = nil
		waiting(err)
	}
}

// commit has a Compact committed and the file put in its place, for a pass.
func (c *Compaction) commit(ctx context.Context, seal sealed.Seal) error {
	answer := make(chan error, 1)
	asked := c.h.Post(func() {
		c.h.Commit(seal, func(err error) {
			if err != nil {
				answer <- err
				return
			}
			c.waiting = func(err error) { answer <- err }
			c.Settle()
		})
	})
	if !asked {
		return fault.Errorf(fault.Unavailable, "the replica is closed")
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
