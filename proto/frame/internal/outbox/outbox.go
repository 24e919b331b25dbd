package outbox

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// inlineBytes is the largest body that is copied behind its message rather than given its own entry of a writev.
const inlineBytes = 512

// chunkBytes is how much one writev carries at most, about.
const chunkBytes = 1 << 20

// keepBytes is the largest buffer that an idle outbox keeps.
const keepBytes = 64 << 10

var (
	// ErrClosed: nothing is taken any more.
	ErrClosed = errors.New("connection closed")
	// ErrStalled: the peer takes no bytes.
	ErrStalled = errors.New("peer stalled")
)

// Body is what follows a message.
type Body interface {
	Len() int
	WriteTo(w io.Writer) (int64, error)
	Close() error
}

// Outcome is told when an item has left the outbox for good.
type Outcome interface {
	// Written is called once, by the writer goroutine: sent tells whether the item was handed to the connection whole.
	Written(sent bool)
}

// Item is a message with its body.
type Item struct {
	// Append appends the message in stream framing. It is called before Push returns.
	Append func(to []byte) ([]byte, error)
	// Body is nil where there is none.
	Body Body
	// Slices is the body's content where it lies in memory.
	Slices [][]byte
	// Done is nil where nobody asks.
	Done Outcome
}

// queued is a message in the outbox's buffer with the body behind it.
type queued struct {
	from, to int
	body     Body     // nil: none, or copied behind the message
	slices   [][]byte // the body's content where it lies in memory
	done     Outcome
	dropped  bool // withdrawn before it was begun
}

// batch is what is written at once.
type batch struct {
	buf   []byte
	items []queued
}

func (b *batch) reset() {
	if cap(b.buf) > keepBytes {
		b.buf = nil
	}
	clear(b.items)
	b.buf, b.items = b.buf[:0], b.items[:0]
}

// Outbox is the sending side of a connection.
type Outbox struct {
	conn    net.Conn
	timeout time.Duration
	now     func() time.Time

	mu struct {
		sync.Mutex
		next   batch
		closed bool  // nothing is taken any more; what is there is still written
		failed error // writing has failed; nothing is written any more
	}
	wake chan struct{} // capacity 1: there is something to do
	done chan struct{} // closed when Run has returned
}

// New makes the outbox of a connection whose peer may take nothing for timeout. now is the time of the connection's deadlines.
func New(conn net.Conn, timeout time.Duration, now func() time.Time) *Outbox {
	return &Outbox{conn: conn, timeout: timeout, now: now, wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Done is closed when Run has returned.
func (q *Outbox) Done() <-chan struct{} { return q.done }

// Push appends an item. On an error nothing was taken and the body stays the caller's.
func (q *Outbox) Push(item Item) error {
	inline := item.Slices != nil && item.Body.Len() <= inlineBytes
	if err := q.append(item, inline); err != nil {
		return err
	}
	if inline {
		_ = item.Body.Close() // it was copied; nothing to report
	}
	return nil
}

func (q *Outbox) append(item Item, inline bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.failed != nil {
		return q.mu.failed
	}
	if q.mu.closed {
		return ErrClosed
	}
	next := &q.mu.next
	from := len(next.buf)
	buf, err := item.Append(next.buf)
	if err != nil {
		return err
	}
	if inline {
		for _, slice := range item.Slices {
			buf = append(buf, slice...)
		}
		item.Body, item.Slices = nil, nil
	}
	next.buf = buf
	next.items = append(next.items, queued{from: from, to: len(buf), body: item.Body, slices: item.Slices, done: item.Done})
	if len(next.items) == 1 {
		q.signal()
	}
	return nil
}

func (q *Outbox) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// Withdraw takes an item out that has not been begun, and closes its body; false if it has been. Its Outcome is not told.
func (q *Outbox) Withdraw(done Outcome) bool {
	body, ok := q.take(done)
	if body != nil {
		_ = body.Close() // what it held is released; nothing to report
	}
	return ok
}

func (q *Outbox) take(done Outcome) (Body, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.mu.next.items {
		item := &q.mu.next.items[i]
		if item.done == done {
			body := item.body
			item.body, item.slices, item.done, item.dropped = nil, nil, nil, true
			return body, true
		}
	}
	return nil, false
}

// Close lets the writer write what is there and end.
func (q *Outbox) Close() {
	q.mu.Lock()
	q.mu.closed = true
	q.mu.Unlock()
	q.signal()
}

// Fail makes the writer end without writing more. The connection is closed by the caller.
func (q *Outbox) Fail(err error) {
	q.mu.Lock()
	if q.mu.failed == nil {
		q.mu.failed = err
	}
	q.mu.Unlock()
	q.signal()
}

// Run is the writer goroutine. It returns nil after Close, else the error that ended it.
func (q *Outbox) Run() error {
	defer close(q.done)
	var current batch
	var vector [][]byte
	for range q.wake {
		for {
			q.mu.Lock()
			current, q.mu.next = q.mu.next, current
			failed, closed := q.mu.failed, q.mu.closed
			q.mu.Unlock()
			if failed != nil {
				current.finish(0, false)
				return failed
			}
			if len(current.items) == 0 {
				if closed {
					return nil
				}
				break
			}
			var err error
			if vector, err = q.write(&current, vector); err != nil {
				q.Fail(err)
				q.drop()
				return err
			}
			current.reset()
		}
	}
	return nil
}

// drop ends what was appended while writing failed.
func (q *Outbox) drop() {
	q.mu.Lock()
	rest := q.mu.next
	q.mu.next = batch{}
	q.mu.Unlock()
	rest.finish(0, false)
}

// finish ends the items from index on.
func (b *batch) finish(from int, sent bool) {
	for i := from; i < len(b.items); i++ {
		b.finishOne(i, sent)
	}
}

// write writes a batch in writevs of about chunkBytes and gives back the vector for reuse.
func (q *Outbox) write(b *batch, vector [][]byte) ([][]byte, error) {
	first := 0 // item that is not finished
	for first < len(b.items) {
		vector = vector[:0]
		size, next := 0, first
		var tail Body // written by itself behind the vector
		for ; next < len(b.items) && tail == nil && size < chunkBytes; next++ {
			item := &b.items[next]
			if item.dropped {
				continue
			}
			vector = appendMessage(vector, b.buf[item.from:item.to])
			size += item.to - item.from
			if item.body == nil {
				continue
			}
			if item.slices != nil {
				vector = append(vector, item.slices...)
				size += item.body.Len()
			} else {
				tail = item.body
			}
		}
		n, err := q.writev(vector)
		if err == nil && tail != nil {
			err = q.writeBody(tail)
		}
		clear(vector)
		if err != nil {
			b.finish(b.finishWritten(first, next, n), false)
			return vector, err
		}
		for ; first < next; first++ {
			b.finishOne(first, true)
		}
	}
	return vector, nil
}

// appendMessage puts a message behind the last one in the vector where both lie side by side in the outbox's buffer.
func appendMessage(vector [][]byte, message []byte) [][]byte {
	if n := len(vector); n > 0 && len(vector[n-1]) > 0 {
		last := vector[n-1]
		if cap(last) > len(last) && &last[:len(last)+1][len(last)] == &message[0] {
			vector[n-1] = last[:len(last)+len(message)]
			return vector
		}
	}
	return append(vector, message)
}

// finishWritten ends the items of [first, next) that n written bytes cover and gives the first one that is not covered. Their tail bodies
// were not written.
func (b *batch) finishWritten(first, next int, n int64) int {
	for ; first < next; first++ {
		item := &b.items[first]
		size := int64(0)
		if !item.dropped {
			size = int64(item.to - item.from)
			if item.body != nil {
				size += int64(item.body.Len())
			}
		}
		if n < size {
			break
		}
		n -= size
		b.finishOne(first, true)
	}
	return first
}

func (b *batch) finishOne(i int, sent bool) {
	item := &b.items[i]
	if item.body != nil {
		_ = item.body.Close() // what it held is released; nothing to report
		item.body, item.slices = nil, nil
	}
	if item.done != nil {
		item.done.Written(sent)
		item.done = nil
	}
}

func (q *Outbox) writev(vector [][]byte) (int64, error) {
	if err := q.conn.SetWriteDeadline(q.now().Add(q.timeout)); err != nil {
		return 0, fmt.Errorf("set write deadline: %w", err)
	}
	if len(vector) == 1 {
		n, err := q.conn.Write(vector[0])
		return int64(n), writeError(err)
	}
	buffers := net.Buffers(vector)
	n, err := buffers.WriteTo(q.conn)
	return n, writeError(err)
}

func (q *Outbox) writeBody(body Body) error {
	if err := q.conn.SetWriteDeadline(q.now().Add(q.timeout)); err != nil {
		return fmt.Errorf("set write deadline: %w", err)
	}
	n, err := body.WriteTo(q.conn)
	if err == nil && n != int64(body.Len()) {
		err = errors.New("body is shorter than it said")
	}
	return writeError(err)
}

// writeError names what ended writing.
func writeError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrStalled
	default:
		return fmt.Errorf("write: %w", err)
	}
}
