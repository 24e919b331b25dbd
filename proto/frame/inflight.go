package frame

import (
	"context"
	"sync"
)

// inflight counts the calls of a connection up to a limit.
type inflight struct {
	mu struct {
		sync.Mutex
		n, max  int
		changed chan struct{} // closed at the next release; nil = nobody waits
	}
}

func newInflight(limit int) *inflight {
	f := &inflight{}
	f.mu.max = limit
	return f
}

// try counts one more if there is room; else it gives what to wait for.
func (f *inflight) try() (<-chan struct{}, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.mu.n < f.mu.max {
		f.mu.n++
		return nil, true
	}
	return f.change(), false
}

// change needs mu.
func (f *inflight) change() <-chan struct{} {
	if f.mu.changed == nil {
		f.mu.changed = make(chan struct{})
	}
	return f.mu.changed
}

// acquire counts one more, waiting for room until ctx or the connection ends.
func (f *inflight) acquire(ctx context.Context, ended <-chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for {
		changed, ok := f.try()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ended:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (f *inflight) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.n--
	if f.mu.changed != nil {
		close(f.mu.changed)
		f.mu.changed = nil
	}
}

// lower takes over a smaller limit; 0 = none.
func (f *inflight) lower(limit int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if limit > 0 {
		f.mu.max = min(f.mu.max, limit)
	}
}

func (f *inflight) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mu.n
}

// none waits until nothing is in flight, or until ctx ends.
func (f *inflight) none(ctx context.Context) error {
	for {
		f.mu.Lock()
		if f.mu.n == 0 {
			f.mu.Unlock()
			return nil
		}
		changed := f.change()
		f.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
