package window

import (
	"context"
	"errors"
	"sync"
)

// ErrEnded: the connection has ended.
var ErrEnded = errors.New("connection ended")

// Window counts calls.
type Window struct {
	mu struct {
		sync.Mutex
		n, max  int
		changed chan struct{} // closed at the next release; nil = nobody waits
	}
}

// New makes a Window of at most limit calls.
func New(limit int) *Window {
	w := &Window{}
	w.mu.max = limit
	return w
}

// try counts one more if there is room; else it gives what to wait for.
func (w *Window) try() (<-chan struct{}, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.n < w.mu.max {
		w.mu.n++
		return nil, true
	}
	return w.change(), false
}

// change needs mu.
func (w *Window) change() <-chan struct{} {
	if w.mu.changed == nil {
		w.mu.changed = make(chan struct{})
	}
	return w.mu.changed
}

// Acquire counts one more, waiting for room until ctx (its cause is returned) or the connection (ErrEnded) ends.
func (w *Window) Acquire(ctx context.Context, ended <-chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for {
		changed, ok := w.try()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ended:
			return ErrEnded
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Release takes one off.
func (w *Window) Release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mu.n--
	if w.mu.changed != nil {
		close(w.mu.changed)
		w.mu.changed = nil
	}
}

// Lower takes over a smaller limit; 0 = none.
func (w *Window) Lower(limit int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if limit > 0 {
		w.mu.max = min(w.mu.max, limit)
	}
}

// Count tells how many there are.
func (w *Window) Count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.n
}

// None waits until nothing is in flight, or until ctx ends.
func (w *Window) None(ctx context.Context) error {
	for {
		w.mu.Lock()
		if w.mu.n == 0 {
			w.mu.Unlock()
			return nil
		}
		changed := w.change()
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
