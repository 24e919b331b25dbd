package disk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
)

// ballastName is the ballast's file in the root of the disk.
const ballastName = "ballast"

// Config is what a Watch is made of. All but Refuse are needed.
type Config struct {
	FS     vfs.FS
	Refuse uint64 // free bytes below which records are refused; 0 = the default
	// Failures is how often the disk has failed within a day, in earlier lives of the broker.
	Failures int
	Clock    clock.Clock
	Log      *slog.Logger
	Metrics  prometheus.Registerer
}

// Watch watches one disk.
type Watch struct {
	cfg  Config
	now  atomic.Pointer[status]
	full chan struct{} // somebody found no room; holds one token

	// What follows belongs to New and then to Run.
	ballast bool      // allocated, as far as the file system does that
	denied  time.Time // when it was last denied; zero = not
	silent  bool      // the volume cannot be asked, and that is logged
}

// status is what was seen last. Immutable.
type status struct {
	state State
	usage vfs.Usage
	marks Marks
	held  uint64 // of the ballast
	cause error  // of Poisoned
}

// New looks at the disk and makes its ballast, if there is room. Errors: DiskPoisoned.
func New(cfg Config) (*Watch, error) {
	w := &Watch{cfg: cfg, full: make(chan struct{}, 1)}
	w.now.Store(&status{})
	if cfg.Failures > 0 {
		cfg.Log.Warn("the disk has failed within a day: once more, and it is retired", "dir", cfg.FS.Name("."), "failures", cfg.Failures)
	}
	info, err := cfg.FS.Stat(ballastName)
	w.ballast = err == nil && info.Size > 0
	if w.ballast {
		if err := w.fill(uint64(info.Size)); err != nil {
			return nil, err
		}
	}
	if err := w.look(false); err != nil {
		return nil, err
	}
	if err := cfg.Metrics.Register(collector{w}); err != nil {
		return nil, fault.Wrap("register metrics", err)
	}
	return w, nil
}

// State tells what the disk takes.
func (w *Watch) State() State { return w.now.Load().state }

// Usage tells the room that was seen last.
func (w *Watch) Usage() vfs.Usage { return w.now.Load().usage }

// NoRoom says that a write found no room: the disk is looked at at once.
func (w *Watch) NoRoom() {
	select {
	case w.full <- struct{}{}:
	default:
	}
}

// Poison says that the disk has failed. The first cause stays.
func (w *Watch) Poison(cause error) {
	for {
		old := w.now.Load()
		if old.state == Poisoned {
			return
		}
		next := *old
		next.state, next.cause = Poisoned, cause
		if w.now.CompareAndSwap(old, &next) {
			w.cfg.Log.Error("disk is poisoned, the broker ends", "dir", w.cfg.FS.Name("."), "err", cause)
			return
		}
	}
}

// Refusal is the error of who may not write in this state; nil if the disk is well enough. appends: it is about an append, not a publish.
func (w *Watch) Refusal(appends bool) error {
	s := w.now.Load()
	switch {
	case s.state == Poisoned:
		return fault.Errorf(fault.DiskPoisoned, "the disk of the broker has failed: %w", s.cause)
	case s.state == RefusesAppends, s.state == RefusesRecords && !appends:
		return &fault.Error{Kind: fault.DiskFull, RetryAfter: RetryAfter, Err: errors.New(s.text())}
	default:
		return nil
	}
}

// Ready is nil if the disk takes records, else says why not.
func (w *Watch) Ready() error {
	return fault.Wrap("disk "+w.cfg.FS.Name("."), w.Refusal(false))
}

func (s *status) text() string {
	mark := s.marks.Records
	if s.state == RefusesAppends {
		mark = s.marks.Appends
	}
	return fmt.Sprintf("the disk of the broker %s: %s of %s are free, below the mark of %s",
		s.state, mebibytes(s.usage.Free), mebibytes(s.usage.Total), mebibytes(mark))
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// Run looks at the disk until ctx ends, and returns nil then. Errors: DiskPoisoned, where the ballast cannot be let go.
func (w *Watch) Run(ctx context.Context) error {
	timer := w.cfg.Clock.NewTimer(lookEvery)
	defer timer.Stop()
	for {
		full := false
		select {
		case <-ctx.Done():
			return nil
		case <-w.full:
			full = true
		case <-timer.C():
		}
		if err := w.look(full); err != nil {
			w.Poison(err)
			return err
		}
		timer.Reset(lookEvery)
	}
}

// look asks the volume, acts, and shows the result.
func (w *Watch) look(full bool) error {
	usage, err := w.cfg.FS.Usage()
	if err != nil {
		if !w.silent {
			w.cfg.Log.Warn("cannot tell how full the disk is", "dir", w.cfg.FS.Name("."), "err", err)
		}
		w.silent = true
		return nil
	}
	w.silent = false
	old := w.now.Load()
	next := status{usage: usage, marks: MarksOf(usage.Total, w.cfg.Refuse), cause: old.cause}
	var do act
	next.state, do = decide(seen{usage, next.marks, old.state, w.ballast, full})
	switch do {
	case release:
		err = w.fill(0)
	case remake:
		if w.denied.IsZero() || w.cfg.Clock.Now().Sub(w.denied) >= remakeWait {
			err = w.fill(next.marks.Ballast)
		}
	case leave:
	}
	if err != nil {
		return err
	}
	if w.ballast {
		next.held = next.marks.Ballast
	}
	if !w.now.CompareAndSwap(old, &next) {
		return nil // it was poisoned meanwhile
	}
	if next.state != old.state {
		w.cfg.Log.Warn("disk has crossed a refusal mark", "dir", w.cfg.FS.Name("."), "state", next.state.String(), "before", old.state.String(),
			"free", usage.Free, "total", usage.Total)
	}
	return nil
}

// fill makes the ballast so large; 0 lets it go. Where there is no room for it, it is left out until there is.
func (w *Watch) fill(size uint64) error {
	w.ballast, w.denied = false, time.Time{}
	file, err := w.cfg.FS.Open(ballastName, vfs.Write|vfs.Create)
	switch {
	case vfs.IsFull(err):
		w.denied = w.cfg.Clock.Now()
		return nil
	case err != nil:
		return fault.Errorf(fault.DiskPoisoned, "open ballast: %w", err)
	}
	err = file.Truncate(int64(size)) //nolint:gosec // ballastMost at most, or what a file has.
	if err == nil && size > 0 {
		err = file.Allocate(0, int64(size)) //nolint:gosec // as above.
	}
	if vfs.IsFull(err) {
		size, err, w.denied = 0, file.Truncate(0), w.cfg.Clock.Now()
	}
	if err == nil {
		err = file.Sync() // only then is its room another's
	}
	if vfs.IsFull(err) {
		size, err, w.denied = 0, nil, w.cfg.Clock.Now()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fault.Errorf(fault.DiskPoisoned, "resize ballast: %w", err)
	}
	w.ballast = size > 0
	return nil
}
