package mailbox

import "sync"

// Mailbox takes publishes of type P. New makes one.
type Mailbox[P any] struct {
	wake                 chan struct{} // holds one token
	batchesMax, bytesMax int
	mu                   struct {
		sync.Mutex
		publishes []P
		calls     []func()
		batches   int // admitted and not answered
		bytes     int
		closed    bool
	}
}

// New makes a mailbox that holds so many publishes, and so many bytes of them.
func New[P any](batches, bytes int) *Mailbox[P] {
	return &Mailbox[P]{wake: make(chan struct{}, 1), batchesMax: batches, bytesMax: bytes}
}

// Wake has a token when something may have come.
func (m *Mailbox[P]) Wake() <-chan struct{} { return m.wake }

// Signal puts a token there.
func (m *Mailbox[P]) Signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Post hands a call over; false if the mailbox is closed.
func (m *Mailbox[P]) Post(call func()) bool {
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

// Answers.
const (
	Admitted Admission = iota
	Overfull
	Closed
)

// Admit takes a publish of size bytes in, if there is room.
func (m *Mailbox[P]) Admit(p P, size int) Admission {
	m.mu.Lock()
	switch {
	case m.mu.closed:
		m.mu.Unlock()
		return Closed
	case m.mu.batches >= m.batchesMax || m.mu.bytes > 0 && m.mu.bytes+size > m.bytesMax:
		m.mu.Unlock()
		return Overfull
	}
	m.mu.batches++
	m.mu.bytes += size
	m.mu.publishes = append(m.mu.publishes, p)
	m.mu.Unlock()
	m.Signal()
	return Admitted
}

// Answered gives the room of publishes back.
func (m *Mailbox[P]) Answered(batches, bytes int) {
	if batches == 0 {
		return
	}
	m.mu.Lock()
	m.mu.batches -= batches
	m.mu.bytes -= bytes
	m.mu.Unlock()
}

// Take gives all calls, and appends all publishes to queue. calls is reused.
func (m *Mailbox[P]) Take(calls []func(), queue []P) ([]func(), []P) {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls, m.mu.calls = m.mu.calls, calls[:0]
	queue = append(queue, m.mu.publishes...)
	clear(m.mu.publishes)
	m.mu.publishes = m.mu.publishes[:0]
	return calls, queue
}

// Close refuses everything from now on and gives what is left.
func (m *Mailbox[P]) Close() (calls []func(), publishes []P) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed = true
	calls, publishes = m.mu.calls, m.mu.publishes
	m.mu.calls, m.mu.publishes = nil, nil
	return calls, publishes
}
