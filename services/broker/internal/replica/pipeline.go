package replica

import (
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// opKind is what is done to the log.
type opKind uint8

const (
	opAppend opKind = iota
	opSync
	opTruncate
	opMark    // MarkSealed
	opDrop    // DropBefore
	opCompact // InstallCompacted
)

// op is one mutation of the log, done by a worker in the order the goroutine asked for it.
type op struct {
	kind       opKind
	generation uint64
	end        partition.Offset // append, sync: up to here; truncate, drop: the offset
	batches    [][]byte
	release    []func() // of the batches' bytes, called when they are written
	early      bool     // append: tell when written, before the sync behind it
	base       partition.Offset
	sum        [32]byte
	snapshot   []byte
	index      *segment.Index // compact
	done       func(error)    // mark, drop: on the replica's goroutine; may be nil
}

// pipeline holds what waits for the log. One job at a time is with the workers (doc.go 1).
type pipeline struct {
	ops      []op
	spare    []op
	busy     bool
	unsynced bool // something is written, or about to be, since the last sync was asked for
	inFlight sync.WaitGroup
	retryAt  time.Duration // elapsed: when Seals are tried again that found no room
}

func (p *pipeline) add(o op) { p.ops = append(p.ops, o) }

// idle tells whether a group handed over now would be written at once.
func (p *pipeline) idle() bool { return !p.busy && len(p.ops) == 0 }

// dispatch gives what waits to a worker, if none is at work for this log.
func (r *Replica) dispatch() {
	p := &r.io
	if p.busy || len(p.ops) == 0 || r.failure != nil {
		return
	}
	job := p.ops
	p.ops, p.spare = p.spare[:0], nil
	p.busy = true
	p.inFlight.Add(1)
	r.deps.Workers.Do(func() { r.perform(job, 0, new(outcome)) })
}

// outcome is what a job did, for the replica's goroutine.
type outcome struct {
	written, persisted []quorum.Event
	done               []func()
	unwritten          *quorum.Unwritten
	why                error // of unwritten
	err                error
}

// perform does a job from an op on, on a worker.
func (r *Replica) perform(job []op, from int, out *outcome) {
	for i := from; i < len(job); i++ {
		o := &job[i]
		if out.err != nil || out.unwritten != nil && (o.kind == opAppend || o.kind == opSync) {
			releaseAll(o.release)
			continue
		}
		if o.kind == opSync {
			r.commitLog(job, i, out)
			return
		}
		r.performOne(o, out)
	}
	r.report(job, out)
}

// commitLog has the log made durable, which no worker waits for, and the rest of the job done behind that.
func (r *Replica) commitLog(job []op, i int, out *outcome) {
	before := r.deps.Clock.Now()
	r.seat.Sync(func(err error) {
		if out.err = err; err == nil {
			r.deps.Metrics.syncSeconds.Observe(r.deps.Clock.Now().Sub(before).Seconds())
			out.persisted = append(out.persisted, quorum.Persisted{Generation: job[i].generation, End: job[i].end})
		}
		if i < len(job)-1 {
			r.deps.Workers.Do(func() { r.perform(job, i+1, out) })
			return
		}
		r.report(job, out)
	})
}

// report gives the outcome of a job to the replica's goroutine.
func (r *Replica) report(job []op, out *outcome) {
	defer r.io.inFlight.Done()
	r.mail.post(func() {
		clear(job)
		r.io.spare = job[:0]
		r.io.busy = false
		r.finish(*out)
	})
}

func releaseAll(release []func()) {
	for _, f := range release {
		f()
	}
}

func (r *Replica) performOne(o *op, out *outcome) {
	switch o.kind {
	case opAppend:
		err := r.wal.Append(o.batches)
		releaseAll(o.release)
		switch {
		case err == nil && o.early:
			ev := quorum.Written{Generation: o.generation, End: o.end}
			r.mail.post(func() { r.step(ev) })
		case err == nil:
			out.written = append(out.written, quorum.Written{Generation: o.generation, End: o.end})
		case fault.Is(err, fault.DiskFull) || fault.Is(err, fault.Overloaded):
			out.unwritten, out.why = &quorum.Unwritten{Generation: o.generation, From: r.wal.End()}, err
		default:
			out.err = err
		}
	case opTruncate:
		out.err = r.wal.Truncate(o.end)
	case opMark:
		r.settle(o, out, r.wal.MarkSealed(o.base, o.sum, o.snapshot))
	case opDrop:
		r.settle(o, out, r.wal.DropBefore(o.end))
	case opCompact:
		r.settle(o, out, r.wal.InstallCompacted(o.index, o.sum))
	}
}

// settle has a mutation's callback called; a full disk, or too many open files, is its business, anything else ends the replica.
func (r *Replica) settle(o *op, out *outcome, err error) {
	if err != nil && !fault.Is(err, fault.DiskFull) && !fault.Is(err, fault.Overloaded) {
		out.err = err
		return
	}
	if o.done != nil {
		done := o.done
		out.done = append(out.done, func() { done(err) })
	}
}

// finish takes in what a job did.
func (r *Replica) finish(out outcome) {
	if out.err != nil {
		r.fail(fault.Wrap("write log of "+r.cfg.Partition.String(), out.err))
		return
	}
	for _, ev := range out.written {
		r.step(ev)
	}
	if len(out.persisted) > 0 {
		r.synced = r.time.Elapsed
	}
	for _, ev := range out.persisted {
		r.step(ev)
	}
	if out.unwritten != nil {
		r.unwritten(*out.unwritten, out.why)
	}
	for _, done := range out.done {
		done()
	}
}

// unwritten takes back what the disk had no room for, and what was to follow it.
func (r *Replica) unwritten(ev quorum.Unwritten, why error) {
	kept := r.io.ops[:0]
	for _, o := range r.io.ops {
		if o.generation == ev.Generation && (o.kind == opAppend || o.kind == opSync) {
			releaseAll(o.release)
			continue
		}
		kept = append(kept, o)
	}
	r.io.ops = kept
	r.deps.NoRoom()
	r.io.retryAt = r.time.Elapsed + retryWait
	r.later(func() {}) // a round to try again in
	r.log.Warn("cannot append, the batches are refused", "offset", ev.From, "err", why)
	r.waiting.cut(r, ev.From, fault.Wrap("publish", why))
	r.admin.cut(ev.From, fault.Wrap("append control batch", why))
	r.step(ev)
}

// syncByInterval asks for the sync of an interval policy when it is due.
func (r *Replica) syncByInterval() {
	if i := r.cfg.Sync.Interval; i > 0 && r.io.unsynced && r.time.Elapsed-r.synced >= i {
		report := r.core.Report()
		r.addSync(report.Generation, report.End)
	}
}

func (r *Replica) addSync(generation uint64, end partition.Offset) {
	r.io.unsynced = false
	r.io.add(op{kind: opSync, generation: generation, end: end})
}
