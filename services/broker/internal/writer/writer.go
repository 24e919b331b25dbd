package writer

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// Host hears what became of the log. It is called on the replica's goroutine.
type Host interface {
	// Written and Persisted say: of a generation of the log, everything below end is in the page cache, or on disk.
	Written(generation uint64, end partition.Offset)
	Persisted(generation uint64, end partition.Offset)
	// Unwritten says: there was no room; of all that was asked for, nothing at or above from is written.
	Unwritten(from partition.Offset, why error)
	// Failed says: the log cannot be written any more.
	Failed(err error)
}

// Config says what a Writer works with; all of it is needed. Post runs a call on the replica's goroutine.
type Config struct {
	Log         *wal.Log
	Seat        *commit.Seat
	Workers     *workers.Pool
	Clock       clock.Clock
	SyncSeconds prometheus.Observer
	Post        func(call func()) bool
	Host        Host
}

// kind is what is done to the log.
type kind uint8

const (
	appends kind = iota
	syncs
	truncates
	others
)

// op is one mutation of the log.
type op struct {
	kind       kind
	generation uint64
	end        partition.Offset // append, sync: up to here; truncate: the log's new end
	batches    [][]byte
	release    []func()
	early      bool
	change     func() error // others
	done       func(error)
}

// Writer holds what waits for the log.
type Writer struct {
	cfg      Config
	ops      []op
	spare    []op
	busy     bool
	unsynced bool
	failed   bool
	inFlight sync.WaitGroup
}

// New makes a Writer.
func New(cfg Config) *Writer { return &Writer{cfg: cfg} }

// Append has batches written that end at end; release is called when that is done. early has the Host told before a sync behind it.
func (w *Writer) Append(generation uint64, end partition.Offset, batches [][]byte, release []func(), early bool) {
	if w.failed {
		releaseAll(release)
		return
	}
	w.unsynced = true
	w.ops = append(w.ops, op{kind: appends, generation: generation, end: end, batches: batches, release: release, early: early})
}

// Sync has everything before it persisted.
func (w *Writer) Sync(generation uint64, end partition.Offset) {
	w.unsynced = false
	// One sync for the appends of one generation that wait together.
	for i := len(w.ops) - 1; i >= 0 && w.ops[i].kind != truncates; i-- {
		if w.ops[i].kind == syncs {
			w.ops = slices.Delete(w.ops, i, i+1)
		}
	}
	w.ops = append(w.ops, op{kind: syncs, generation: generation, end: end})
}

// Truncate has the log cut at to.
func (w *Writer) Truncate(to partition.Offset) {
	w.ops = append(w.ops, op{kind: truncates, end: to})
}

// Change has something else done to the log, then done called, unless it failed the log. A full disk, or too many open files, is done's
// business. done may be nil.
func (w *Writer) Change(change func() error, done func(error)) {
	w.ops = append(w.ops, op{kind: others, change: change, done: done})
}

// Idle tells whether what is asked for now would be done at once.
func (w *Writer) Idle() bool { return !w.busy && len(w.ops) == 0 }

// Busy tells whether a job is with the workers.
func (w *Writer) Busy() bool { return w.busy }

// Unsynced tells whether something is written, or about to be, since the last sync was asked for.
func (w *Writer) Unsynced() bool { return w.unsynced }

// Wait returns when no job is with the workers.
func (w *Writer) Wait() { w.inFlight.Wait() }

// Stop forgets what was not begun.
func (w *Writer) Stop() {
	w.failed = true
	for i := range w.ops {
		releaseAll(w.ops[i].release)
	}
	w.ops = nil
}

// Dispatch gives what waits to a worker, if none is at work for this log.
func (w *Writer) Dispatch() {
	if w.busy || len(w.ops) == 0 || w.failed {
		return
	}
	job := w.ops
	w.ops, w.spare = w.spare[:0], nil
	w.busy = true
	w.inFlight.Add(1)
	w.cfg.Workers.Do(func() { w.perform(job, 0, new(outcome)) })
}

// mark is how far a generation is written or persisted.
type mark struct {
	generation uint64
	end        partition.Offset
}

// outcome is what a job did, for the replica's goroutine.
type outcome struct {
	written, persisted []mark
	done               []func()
	noRoom             error // why an append failed
	err                error
}

// perform does a job from an op on, on a worker.
func (w *Writer) perform(job []op, from int, out *outcome) {
	for i := from; i < len(job); i++ {
		o := &job[i]
		switch {
		case out.err != nil, out.noRoom != nil && o.kind < truncates:
			releaseAll(o.release)
		case o.kind == syncs:
			w.commit(job, i, out)
			return
		case o.kind == appends:
			w.write(o, out)
		case o.kind == truncates:
			out.err = w.cfg.Log.Truncate(o.end)
		default:
			change(o, out)
		}
	}
	w.report(job, out)
}

// commit has the log made durable, which no worker waits for, and the rest of the job done behind that.
func (w *Writer) commit(job []op, i int, out *outcome) {
	before := w.cfg.Clock.Now()
	w.cfg.Seat.Sync(func(err error) {
		if out.err = err; err == nil {
			w.cfg.SyncSeconds.Observe(w.cfg.Clock.Now().Sub(before).Seconds())
			out.persisted = append(out.persisted, mark{job[i].generation, job[i].end})
		}
		if i < len(job)-1 {
			w.cfg.Workers.Do(func() { w.perform(job, i+1, out) })
			return
		}
		w.report(job, out)
	})
}

func (w *Writer) write(o *op, out *outcome) {
	err := w.cfg.Log.Append(o.batches)
	releaseAll(o.release)
	switch {
	case err == nil && o.early:
		m := mark{o.generation, o.end}
		w.cfg.Post(func() { w.cfg.Host.Written(m.generation, m.end) })
	case err == nil:
		out.written = append(out.written, mark{o.generation, o.end})
	case noRoom(err):
		out.noRoom = err
	default:
		out.err = err
	}
}

func change(o *op, out *outcome) {
	err := o.change()
	if err != nil && !noRoom(err) {
		out.err = err
		return
	}
	if done := o.done; done != nil {
		out.done = append(out.done, func() { done(err) })
	}
}

func noRoom(err error) bool { return fault.Is(err, fault.DiskFull) || fault.Is(err, fault.Overloaded) }

// report gives the outcome of a job to the replica's goroutine.
func (w *Writer) report(job []op, out *outcome) {
	defer w.inFlight.Done()
	w.cfg.Post(func() {
		clear(job)
		w.spare = job[:0]
		w.busy = false
		w.finish(out)
	})
}

// finish takes in what a job did.
func (w *Writer) finish(out *outcome) {
	if out.err != nil {
		w.cfg.Host.Failed(out.err)
		return
	}
	for _, m := range out.written {
		w.cfg.Host.Written(m.generation, m.end)
	}
	for _, m := range out.persisted {
		w.cfg.Host.Persisted(m.generation, m.end)
	}
	if out.noRoom != nil {
		w.cfg.Host.Unwritten(w.drop(), out.noRoom)
	}
	for _, done := range out.done {
		done()
	}
}

// drop forgets the appends and syncs that wait, and tells where the log ends after what is left.
func (w *Writer) drop() partition.Offset {
	end := w.cfg.Log.End()
	kept := w.ops[:0]
	for _, o := range w.ops {
		if o.kind < truncates {
			releaseAll(o.release)
			continue
		}
		if o.kind == truncates {
			end = min(end, o.end)
		}
		kept = append(kept, o)
	}
	clear(w.ops[len(kept):])
	w.ops = kept
	return end
}

func releaseAll(release []func()) {
	for _, f := range release {
		f()
	}
}
