package inbox

import "sync"

// Box takes items, with what they weigh, and calls. New makes one.
type Box[T any] struct {
	most, mostBytes int
	wake            chan struct{} // holds one token
	mu              struct {
		sync.Mutex
		items  []T
		calls  []func()
		count  int // admitted and not answered
		bytes  int
		closed bool
	}
}

// New makes a Box that admits so many items, and so many bytes of them but for a single item, until they are answered.
func New[T any](most, mostBytes int) *Box[T] {
	return &Box[T]{most: most, mostBytes: mostBytes, wake: make(chan struct{}, 1)}
}

// Wake gives a token when there may be something to take.
func (m *Box[T]) Wake() <-chan struct{} { return m.wake }

// Signal wakes the owner.
func (m *Box[T]) Signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Post hands a call over; false if the box is closed.
func (m *Box[T]) Post(call func()) bool {
	m.mu.Lock()
	if m.mu.closed {
		m.mu.Unlock()
		return false
	}
	m.mu.calls = append(m.mu.calls, call)
	m.mu.Unlock()
	m.Signal()
	return true
}

// Admission is the answer of Admit.
type Admission uint8

// The admissions.
const (
	Admitted Admission = iota
	Overfull
	Stopped
)

// Admit hands an item over, if there is room for it.
func (m *Box[T]) Admit(item T, size int) Admission {
	m.mu.Lock()
	switch {
	case m.mu.closed:
		m.mu.Unlock()
		return Stopped
	case m.mu.count >= m.most || m.mu.bytes > 0 && m.mu.bytes+size > m.mostBytes:
		m.mu.Unlock()
		return Overfull
	}
	m.mu.count++
	m.mu.bytes += size
	m.mu.items = append(m.mu.items, item)
	m.mu.Unlock()
	m.Signal()
	return Admitted
}

// Answered gives room back.
func (m *Box[T]) Answered(count, bytes int) {
	if count == 0 {
		return
	}
	m.mu.Lock()
	m.mu.count -= count
	m.mu.bytes -= bytes
	m.mu.Unlock()
}

// Take gives all calls, in the memory of those that were taken before, and appends all items to queue.
func (m *Box[T]) Take(calls []func(), queue []T) ([]func(), []T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls, m.mu.calls = m.mu.calls, calls[:0]
	queue = append(queue, m.mu.items...)
	clear(m.mu.items)
	m.mu.items = m.mu.items[:0]
	return calls, queue
}

// Close refuses everything from now on and gives what is left.
func (m *Box[T]) Close() (calls []func(), items []T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed = true
	calls, items = m.mu.calls, m.mu.items
	m.mu.calls, m.mu.items = nil, nil
	return calls, items
}
