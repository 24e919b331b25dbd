package replica

import (
	"sync"

	"github.com/seedqueue/sq/proto/batch"
)

// queued is a published batch that waits to be appended.
type queued struct {
	Publish
	header batch.Header
}

// mailbox is what others hand to a replica's goroutine. Publishes are bounded; calls are completions and requests of the broker itself, whose
// number is bounded by what the replica and its callers have in flight.
type mailbox struct {
	wake chan struct{} // holds one token
	mu   struct {
		sync.Mutex
		publishes []queued
		calls     []func()
		batches   int // published and not answered
		bytes     int
		closed    bool
	}
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// post hands a call over; false if the replica has stopped.
func (m *mailbox) post(call func()) bool {
	m.mu.Lock()
	if m.mu.closed {
		m.mu.Unlock()
		return false
	}
	m.mu.calls = append(m.mu.calls, call)
	m.mu.Unlock()
	m.signal()
	return true
}

// admission is the answer of admit.
type admission uint8

const (
	admitted admission = iota
	overfull
	stopped
)

func (m *mailbox) admit(q queued, l Limits) admission {
	m.mu.Lock()
	switch {
	case m.mu.closed:
		m.mu.Unlock()
		return stopped
	case m.mu.batches >= l.QueueBatches || m.mu.bytes > 0 && m.mu.bytes+q.header.Size > l.QueueBytes:
		m.mu.Unlock()
		return overfull
	}
	m.mu.batches++
	m.mu.bytes += q.header.Size
	m.mu.publishes = append(m.mu.publishes, q)
	m.mu.Unlock()
	m.signal()
	return admitted
}

// answered gives room back.
func (m *mailbox) answered(batches, bytes int) {
	if batches == 0 {
		return
	}
	m.mu.Lock()
	m.mu.batches -= batches
	m.mu.bytes -= bytes
	m.mu.Unlock()
}

// take gives all calls, and appends all publishes to queue.
func (m *mailbox) take(calls []func(), queue []queued) ([]func(), []queued) {
	m.mu.Lock()
	defer m.mu.Unlock()
	calls, m.mu.calls = m.mu.calls, calls[:0]
	queue = append(queue, m.mu.publishes...)
	clear(m.mu.publishes)
	m.mu.publishes = m.mu.publishes[:0]
	return calls, queue
}

// close refuses everything from now on and gives what is left.
func (m *mailbox) close() (calls []func(), publishes []queued) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mu.closed = true
	calls, publishes = m.mu.calls, m.mu.publishes
	m.mu.calls, m.mu.publishes = nil, nil
	return calls, publishes
}
