package clock

import (
	"context"
	"sync"
	"time"
)

// Manual is a test's clock: it stands still between calls of Advance.
type Manual struct {
	mu struct {
		sync.Mutex
		now     time.Time
		pending []*manualTimer // by due time, then by age
		changed chan struct{}  // closed when pending grows
	}
}

// NewManual makes a clock that shows start.
func NewManual(start time.Time) *Manual {
	m := &Manual{}
	m.mu.now = start
	m.mu.changed = make(chan struct{})
	return m
}

// Now gives the time the clock shows.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mu.now
}

// NewTimer makes a timer that fires within the Advance that reaches its time; at once where d is not positive.
func (m *Manual) NewTimer(d time.Duration) Timer {
	t := &manualTimer{clock: m, c: make(chan time.Time, 1)}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.startLocked(t, d)
	return t
}

// Advance moves the clock by d. Timers that come due fire in the order of their times, each with its time; what a woken goroutine then
// sets counts from the new time.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.mu.now.Add(d)
	for len(m.mu.pending) > 0 && !m.mu.pending[0].due.After(end) {
		t := m.mu.pending[0]
		m.mu.pending = m.mu.pending[1:]
		t.fireLocked()
	}
	m.mu.now = end
}

// Pending tells how many timers wait.
func (m *Manual) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.mu.pending)
}

// AwaitPending returns when at least n timers wait, which is how a test knows that a goroutine has come to rest.
func (m *Manual) AwaitPending(ctx context.Context, n int) error {
	for {
		m.mu.Lock()
		count, changed := len(m.mu.pending), m.mu.changed
		m.mu.Unlock()
		if count >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (m *Manual) startLocked(t *manualTimer, d time.Duration) {
	t.due = m.mu.now.Add(d)
	if d <= 0 {
		t.fireLocked()
		return
	}
	at := len(m.mu.pending)
	for at > 0 && m.mu.pending[at-1].due.After(t.due) {
		at--
	}
	m.mu.pending = append(m.mu.pending, nil)
	copy(m.mu.pending[at+1:], m.mu.pending[at:])
	m.mu.pending[at] = t
	close(m.mu.changed)
	m.mu.changed = make(chan struct{})
}

func (m *Manual) removeLocked(t *manualTimer) bool {
	for i, p := range m.mu.pending {
		if p == t {
			m.mu.pending = append(m.mu.pending[:i:i], m.mu.pending[i+1:]...)
			return true
		}
	}
	return false
}

type manualTimer struct {
	clock *Manual
	due   time.Time // guarded by clock.mu
	c     chan time.Time
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.clock.removeLocked(t)
}

func (t *manualTimer) Reset(d time.Duration) {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	t.clock.removeLocked(t)
	select {
	case <-t.c: // a time that nobody took is not the new one's
	default:
	}
	t.clock.startLocked(t, d)
}

func (t *manualTimer) fireLocked() {
	select {
	case t.c <- t.due:
	default:
	}
}
