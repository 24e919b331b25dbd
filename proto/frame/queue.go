package frame

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// outcome is told when an item has left the queue for good.
type outcome interface {
	// written is called once, by the writer goroutine: sent tells whether the item was handed to the connection whole.
	written(sent bool)
}

// outItem is a message in the queue's buffer with the body behind it.
type outItem struct {
	from, to int
	body     Body    // nil: none, or copied behind the message
	done     outcome // nil: nobody asks
	dropped  bool    // withdrawn before it was begun
}

// batch is what is written at once.
type batch struct {
	buf   []byte
	items []outItem
}

func (b *batch) reset() {
	if cap(b.buf) > keepBufferBytes {
		b.buf = nil
	}
	clear(b.items)
	b.buf, b.items = b.buf[:0], b.items[:0]
}

// queue is the outgoing side of a connection: callers append, one writer goroutine takes all there is and writes it. Its length is bounded
// by the in-flight limits of those who append.
type queue struct {
	conn    net.Conn
	timeout time.Duration

	mu struct {
		sync.Mutex
		next   batch
		closed bool  // nothing is taken any more; what is there is still written
		failed error // writing has failed; nothing is written any more
	}
	wake chan struct{} // capacity 1: there is something to do
	idle chan struct{} // closed when the writer has ended
}

func newQueue(conn net.Conn, timeout time.Duration) *queue {
	return &queue{conn: conn, timeout: timeout, wake: make(chan struct{}, 1), idle: make(chan struct{})}
}

// push appends a message with its body. On an error nothing was taken and the body stays the caller's.
func (q *queue) push(b *builder, body Body, done outcome) error {
	if err := q.append(b, body, done); err != nil {
		return err
	}
	if body != nil && inline(body) {
		_ = body.Close() // it was copied; nothing to report
	}
	return nil
}

func (q *queue) append(b *builder, body Body, done outcome) error {
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
	buf, err := b.appendTo(next.buf)
	if err != nil {
		return err
	}
	if body != nil && inline(body) {
		buf = body.(vectorBody).appendTo(buf) //nolint:forcetypeassert // inline has looked
		body = nil
	}
	next.buf = buf
	next.items = append(next.items, outItem{from: from, to: len(buf), body: body, done: done})
	if len(next.items) == 1 {
		q.signal()
	}
	return nil
}

// inline tells whether a body is so small that a copy is cheaper than an entry of a writev.
func inline(body Body) bool {
	_, ok := body.(vectorBody)
	return ok && body.Len() <= inlineBodyBytes
}

func (q *queue) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// withdraw takes an item out that has not been begun; false if it has.
func (q *queue) withdraw(done outcome) bool {
	body, ok := q.take(done)
	if body != nil {
		_ = body.Close() // what it held is released; nothing to report
	}
	return ok
}

func (q *queue) take(done outcome) (Body, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range q.mu.next.items {
		item := &q.mu.next.items[i]
		if item.done == done {
			body := item.body
			item.body, item.done, item.dropped = nil, nil, true
			return body, true
		}
	}
	return nil, false
}

// close lets the writer write what is there and end.
func (q *queue) close() {
	q.mu.Lock()
	q.mu.closed = true
	q.mu.Unlock()
	q.signal()
}

// fail makes the writer end without writing more. The connection is closed by the caller.
func (q *queue) fail(err error) {
	q.mu.Lock()
	if q.mu.failed == nil {
		q.mu.failed = err
	}
	q.mu.Unlock()
	q.signal()
}

// run is the writer goroutine. It returns nil after close, else the error that ended it.
func (q *queue) run() error {
	defer close(q.idle)
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
				q.fail(err)
				q.drop()
				return err
			}
			current.reset()
		}
	}
	return nil
}

// drop ends what was appended while writing failed.
func (q *queue) drop() {
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

// write writes a batch in writevs of about writeChunkBytes and gives back the vector for reuse.
func (q *queue) write(b *batch, vector [][]byte) ([][]byte, error) {
	first := 0 // item that is not finished
	for first < len(b.items) {
		vector = vector[:0]
		size, next := 0, first
		var tail Body // written by itself behind the vector
		for ; next < len(b.items) && tail == nil && size < writeChunkBytes; next++ {
			item := &b.items[next]
			if item.dropped {
				continue
			}
			vector = appendMessage(vector, b.buf[item.from:item.to])
			size += item.to - item.from
			if item.body == nil {
				continue
			}
			if inMemory, ok := item.body.(vectorBody); ok {
				vector = inMemory.vector(vector)
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

// appendMessage puts a message behind the last one in the vector where both lie side by side in the queue's buffer.
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
		item.body = nil
	}
	if item.done != nil {
		item.done.written(sent)
		item.done = nil
	}
}

func (q *queue) writev(vector [][]byte) (int64, error) {
	if err := q.conn.SetWriteDeadline(now().Add(q.timeout)); err != nil {
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

func (q *queue) writeBody(body Body) error {
	if err := q.conn.SetWriteDeadline(now().Add(q.timeout)); err != nil {
		return fmt.Errorf("set write deadline: %w", err)
	}
	n, err := body.WriteTo(q.conn)
	if err == nil && n != int64(body.Len()) {
		err = errors.New("body is shorter than it said")
	}
	return writeError(err)
}
