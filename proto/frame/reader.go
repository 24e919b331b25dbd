package frame

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// ErrTruncated: the stream ended inside a message or a body.
var ErrTruncated = fmt.Errorf("stream ends inside a message: %w", io.ErrUnexpectedEOF)

// readDeadliner is what a net.Conn has.
type readDeadliner interface {
	SetReadDeadline(t time.Time) error
}

// Reader takes messages and bodies from a stream. Of a net.Conn it also sets the read deadline, while it is inside a message.
type Reader struct {
	from io.Reader
	pool *Pool
	max  int // bytes of a message, its framing included

	buf  []byte
	r, w int // unread bytes are buf[r:w]

	deadliner readDeadliner // nil: none
	stall     time.Duration
	until     time.Time // a deadline of everything: that of Hello; zero = none
	item      time.Time // deadline of the message or body being read; zero = not yet set
	itemBytes int
	armed     bool // a deadline is set on the connection

	budgetWait time.Duration   // how long a body waits for room in the budget
	stopped    <-chan struct{} // closed: nothing is waited for any more; whoever closes it then ends a read that is under way
}

// NewReader makes a Reader of messages of at most maxMessage bytes, framing included.
func NewReader(from io.Reader, maxMessage int) *Reader {
	return newReader(from, maxMessage, NewPool(), DefaultStallTimeout)
}

func newReader(from io.Reader, maxMessage int, pool *Pool, stall time.Duration) *Reader {
	r := &Reader{from: from, pool: pool, max: maxMessage, buf: make([]byte, readBufferBytes), stall: stall}
	r.deadliner, _ = from.(readDeadliner)
	return r
}

// SetMaxMessage changes the limit of the messages that follow.
func (r *Reader) SetMaxMessage(n int) { r.max = n }

// Next reads a message. It returns io.EOF if the stream ends before one, a *FormatError if what comes is not a message within the limits,
// ErrTruncated or ErrStalled if it does not come whole.
func (r *Reader) Next() (*Message, error) {
	if err := r.boundary(); err != nil {
		return nil, err
	}
	r.begin(r.max)
	if err := r.fill(8); err != nil {
		return nil, err
	}
	segments := binary.LittleEndian.Uint32(r.buf[r.r:])
	words := binary.LittleEndian.Uint32(r.buf[r.r+4:])
	switch {
	case segments != 0: // the wire has the count minus one
		return nil, formatErrorf(wirecapnp.ErrorKind_invalid, "message has %d segments, one is allowed", uint64(segments)+1)
	case words == 0:
		return nil, formatErrorf(wirecapnp.ErrorKind_invalid, "message is empty")
	case uint64(words)*8+8 > uint64(r.max):
		return nil, formatErrorf(wirecapnp.ErrorKind_tooLarge, "message of %d bytes is larger than the limit of %d", uint64(words)*8+8, r.max)
	}
	r.r += 8
	buf, err := r.read(int(words)*8, nil, nil)
	if err != nil {
		return nil, err
	}
	message, err := r.pool.message(buf)
	if err != nil {
		return nil, formatErrorf(wirecapnp.ErrorKind_invalid, "message is unreadable: %v", err)
	}
	return message, nil
}

// Body reads the n bytes behind a message; the caller has checked n against its limit. Where the budget has no room, the body
// is read over and ErrOverBudget returned: the stream is intact.
func (r *Reader) Body(ctx context.Context, n int, budget Budget) (*Buffer, error) {
	if budget == nil {
		return r.read(n, nil, nil)
	}
	return r.read(n, budget, func(n int) bool { return r.reserve(ctx, budget, n) })
}

// read takes n bytes into a buffer that starts with one step and grows to four times what has arrived, reserved before it grows. reserve is nil
// where nothing need be.
func (r *Reader) read(n int, budget Budget, reserve func(n int) bool) (*Buffer, error) {
	r.begin(n)
	size := min(n, step)
	if reserve != nil && !reserve(size) {
		return nil, r.refuse(n)
	}
	buf := r.pool.Get(size)
	buf.budget, buf.reserved = budget, size
	for have := 0; ; {
		if err := r.full(buf.data[have:]); err != nil {
			buf.Release()
			return nil, err
		}
		if have = len(buf.data); have == n {
			return buf, nil
		}
		next := min(n, 4*have)
		if reserve != nil && !reserve(next-have) {
			buf.Release()
			return nil, r.refuse(n - have)
		}
		buf = buf.grow(next)
		buf.reserved = next
	}
}

// reserve tries at once, then waits for budgetWait.
func (r *Reader) reserve(ctx context.Context, budget Budget, n int) bool {
	if quick, ok := budget.(tryBudget); ok && quick.TryReserve(n) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, r.budgetWait)
	defer cancel()
	return budget.Reserve(ctx, n) == nil
}

// refuse reads over what is left of a body that has no room.
func (r *Reader) refuse(n int) error {
	if err := r.Skip(int64(n)); err != nil {
		return err
	}
	return ErrOverBudget
}

// Skip reads over n bytes.
func (r *Reader) Skip(n int64) error {
	r.begin(int(min(n, 1<<40)))
	for n > 0 {
		if r.r == r.w {
			r.r, r.w = 0, 0
			if err := r.more(1); err != nil {
				return err
			}
		}
		taken := min(n, int64(r.w-r.r))
		r.r += int(taken)
		n -= taken
	}
	return nil
}

// Buffered tells how many bytes have been received and not yet taken.
func (r *Reader) Buffered() int { return r.w - r.r }

// setUntil sets a deadline for everything that follows; zero lifts it.
func (r *Reader) setUntil(t time.Time) {
	r.until = t
	r.armed = true // boundary sets the connection's anew
}

// begin says how much is to come, for the minimum rate.
func (r *Reader) begin(n int) { r.itemBytes, r.item = n, time.Time{} }

// boundary waits for the first byte of a message, for as long as it takes.
func (r *Reader) boundary() error {
	if r.r < r.w {
		return nil
	}
	r.r, r.w = 0, 0
	if r.armed && r.deadliner != nil {
		if err := r.setDeadline(r.until); err != nil {
			return err
		}
		r.armed = false
	}
	n, err := r.from.Read(r.buf)
	r.w = n
	if n > 0 {
		return nil
	}
	return readError(err, io.EOF)
}

// fill makes at least n bytes, n ≤ the buffer's size, available in it.
func (r *Reader) fill(n int) error {
	if r.w-r.r >= n {
		return nil
	}
	if r.r > 0 {
		copy(r.buf, r.buf[r.r:r.w])
		r.r, r.w = 0, r.w-r.r
	}
	return r.more(n - r.w)
}

// more reads at least n bytes behind the buffer's content.
func (r *Reader) more(n int) error {
	for n > 0 {
		if err := r.arm(); err != nil {
			return err
		}
		got, err := r.from.Read(r.buf[r.w:])
		r.w += got
		n -= got
		if n > 0 && (err != nil || got == 0) {
			return readError(err, ErrTruncated)
		}
	}
	return nil
}

// full fills to, from the buffer first and then straight from the stream.
func (r *Reader) full(to []byte) error {
	n := copy(to, r.buf[r.r:r.w])
	r.r += n
	to = to[n:]
	for len(to) > 0 {
		if len(to) < len(r.buf) { // a small rest: what comes behind it is taken in the same read
			r.r, r.w = 0, 0
			if err := r.more(len(to)); err != nil {
				return err
			}
			r.r = copy(to, r.buf[:r.w])
			return nil
		}
		if err := r.arm(); err != nil {
			return err
		}
		got, err := r.from.Read(to)
		to = to[got:]
		if len(to) > 0 && (err != nil || got == 0) {
			return readError(err, ErrTruncated)
		}
	}
	return nil
}

// arm sets the deadline of one read inside a message or body.
func (r *Reader) arm() error {
	if r.deadliner == nil {
		return nil
	}
	t := now()
	if r.item.IsZero() {
		r.item = t.Add(r.stall + time.Duration(r.itemBytes)*(time.Second/bytesPerSecondMin))
	}
	deadline := t.Add(r.stall)
	if r.item.Before(deadline) {
		deadline = r.item
	}
	if !r.until.IsZero() && r.until.Before(deadline) {
		deadline = r.until
	}
	r.armed = true
	return r.setDeadline(deadline)
}

func (r *Reader) setDeadline(t time.Time) error {
	if err := r.deadliner.SetReadDeadline(t); err != nil {
		return fmt.Errorf("set read deadline: %w", err)
	}
	select { // after the deadline is set: one of the two who set it sees the other
	case <-r.stopped:
		return ErrClosed
	default:
		return nil
	}
}

// readError names the end of a stream by what it means where it came.
func readError(err, eof error) error {
	switch {
	case err == nil:
		return io.ErrNoProgress
	case errors.Is(err, io.EOF):
		return eof
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ErrStalled
	default:
		return fmt.Errorf("read: %w", err)
	}
}
