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
	busy     bool // a job is with the workers
	syncing  bool // a sync is with the committer, behind which no job waits
	unsynced bool
	refused  error // why an append failed, before the Host hears of it; nothing is begun meanwhile
	owed     *op   // the sync that a refused append stood before, of what comes before it
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
func (w *Writer) Idle() bool { return !w.Busy() && len(w.ops) == 0 }

// Ahead tells whether an append that is asked for now would be written at once, while a sync of what was written before is under way.
func (w *Writer) Ahead() bool {
	return w.syncing && !w.busy && w.refused == nil && !slices.ContainsFunc(w.ops, func(o op) bool { return o.kind != syncs })
}

// Busy tells whether a job is with the workers, or a sync with the committer.
func (w *Writer) Busy() bool { return w.busy || w.syncing || w.refused != nil }

// Unsynced tells whether something is written, or about to be, since the last sync was asked for.
func (w *Writer) Unsynced() bool { return w.unsynced }

// Wait returns when nothing is with the workers or the committer.
func (w *Writer) Wait() { w.inFlight.Wait() }

// Stop forgets what was not begun.
func (w *Writer) Stop() {
	w.failed = true
	for i := range w.ops {
		releaseAll(w.ops[i].release)
	}
	w.ops = nil
}

// Dispatch gives what waits to a worker, if none is at work for this log. While a sync is under way, these are appends only.
func (w *Writer) Dispatch() {
	if w.busy || len(w.ops) == 0 || w.failed || w.refused != nil {
		return
	}
	var job []op
	switch {
	case w.syncing:
		if job = w.takeAhead(); len(job) == 0 {
			return
		}
	case len(w.ops) == 1 && w.ops[0].kind == syncs:
		o := w.ops[0]
		w.ops = w.ops[:0]
		w.syncing = true
		w.inFlight.Add(1)
		w.sync(o)
		return
	default:
		job = w.ops
		w.ops, w.spare = w.spare[:0], nil
	}
	w.busy = true
	w.inFlight.Add(1)
	w.cfg.Workers.Do(func() { w.perform(job, 0, new(outcome)) })
}

// takeAhead takes the appends out that no cut or change stands before, and leaves the sync behind them to wait.
func (w *Writer) takeAhead() (job []op) {
	n := slices.IndexFunc(w.ops, func(o op) bool { return o.kind > syncs })
	if n < 0 {
		n = len(w.ops)
	}
	job = w.spare[:0]
	w.spare = nil
	var rest []op
	for _, o := range w.ops[:n] {
		if o.kind == appends {
			job = append(job, o)
		} else {
			rest = append(rest[:0], o)
		}
	}
	w.ops = append(rest, w.ops[n:]...)
	return job
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
	syncing            bool  // a sync of what was written is under way
	owed               *op   // a sync that was not done because of noRoom
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
			if o.kind == syncs {
				out.owed = o
			}
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

// commit has the log made durable, which no worker waits for. Behind the last sync of a job, the next one may write meanwhile; the rest of a job
// is done behind its sync.
func (w *Writer) commit(job []op, i int, out *outcome) {
	if o := job[i]; i == len(job)-1 {
		w.inFlight.Add(1) // before the job's own end
		out.syncing = true
		w.report(job, out)
		w.sync(o)
		return
	}
	before := w.cfg.Clock.Now()
	w.cfg.Seat.Sync(func(err error) {
		if out.err = err; err == nil {
			w.cfg.SyncSeconds.Observe(w.cfg.Clock.Now().Sub(before).Seconds())
			out.persisted = append(out.persisted, mark{job[i].generation, job[i].end})
		}
		w.cfg.Workers.Do(func() { w.perform(job, i+1, out) })
	})
}

// sync has what was written before o made durable, beside whatever is appended meanwhile.
func (w *Writer) sync(o op) {
	before := w.cfg.Clock.Now()
	w.cfg.Seat.Sync(func(err error) {
		defer w.inFlight.Done()
		if err == nil {
			w.cfg.SyncSeconds.Observe(w.cfg.Clock.Now().Sub(before).Seconds())
		}
		w.cfg.Post(func() {
			w.syncing = false
			if err != nil {
				w.cfg.Host.Failed(err)
				return
			}
			w.cfg.Host.Persisted(o.generation, o.end)
			w.refuse()
		})
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
		if out.owed != nil {
			o := *out.owed
			w.owed = &o
		}
		clear(job)
		w.spare = job[:0]
		w.busy, w.syncing = false, w.syncing || out.syncing
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
		w.refused = out.noRoom
		w.refuse()
	}
	for _, done := range out.done {
		done()
	}
}

// refuse tells the Host that there was no room. First what was written before is made durable, if that was asked for: the Host cuts the log
// then, and what is persisted of the log before a cut is not heard of any more.
func (w *Writer) refuse() {
	if w.refused == nil || w.syncing {
		return
	}
	for i := range w.ops {
		if w.ops[i].kind == truncates {
			break
		}
		if w.ops[i].kind == syncs {
			o := w.ops[i]
			w.owed = &o
			w.ops = slices.Delete(w.ops, i, i+1)
			break
		}
	}
	if o := w.owed; o != nil {
		w.owed, w.syncing = nil, true
		w.inFlight.Add(1)
		w.sync(op{kind: syncs, generation: o.generation, end: w.cfg.Log.End()})
		return
	}
	why := w.refused
	w.refused = nil
	w.cfg.Host.Unwritten(w.drop(), why)
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
