package fault

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// ErrClosed: the client or producer was closed.
var ErrClosed = errors.New("closed")

// Kind is a kind of the wire.
type Kind = wirecapnp.ErrorKind

// Error is an error with a kind.
type Error struct {
	Kind Kind
	// Op says what was attempted: "publish to orders/3".
	Op string
	// Err is the cause; may be nil.
	Err error
	// RetryAfter is a server's hint, 0 = none.
	RetryAfter time.Duration
	// Offset goes with offsetTrimmed (log start), offsetOutOfRange (high watermark), outOfOrder (next sequence), corrupt (behind the damage, 0 = not known).
	Offset int64
}

// Error gives "op: cause".
func (e *Error) Error() string {
	text := e.Kind.String()
	if e.Err != nil {
		text = e.Err.Error()
	}
	if e.Op == "" {
		return text
	}
	return e.Op + ": " + text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error without an operation; the text is formatted as by fmt.Errorf.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Of makes an Error of whatever the layers below gave. An operation that it has already stays.
func Of(op string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Op != "" {
			return e
		}
		again := *e
		again.Op = op
		return &again
	}
	if conn, ok := errors.AsType[*frame.ConnError](err); ok {
		kind := wirecapnp.ErrorKind_unavailable
		if conn.Sent {
			kind = wirecapnp.ErrorKind_outcomeUnknown
		} else if ended := kindOf(conn.Err); ended != wirecapnp.ErrorKind_internal {
			kind = ended
		}
		return &Error{Kind: kind, Op: op, Err: Plain(conn.Err)}
	}
	if remote, ok := errors.AsType[*frame.RemoteError](err); ok {
		e := &Error{Kind: remote.Kind, Op: op, RetryAfter: remote.RetryAfter, Offset: int64(min(remote.Offset, batch.MaxOffset))}
		if remote.Text != "" {
			e.Err = errors.New(remote.Text)
		}
		return e
	}
	if format, ok := errors.AsType[*frame.FormatError](err); ok {
		return &Error{Kind: format.Kind, Op: op, Err: Plain(err)}
	}
	if large, ok := errors.AsType[*batch.TooLargeError](err); ok {
		return &Error{Kind: wirecapnp.ErrorKind_tooLarge, Op: op, Err: large}
	}
	switch {
	case errors.Is(err, ErrClosed):
		return &Error{Kind: wirecapnp.ErrorKind_canceled, Op: op, Err: ErrClosed}
	case errors.Is(err, frame.ErrOverBudget):
		return &Error{Kind: wirecapnp.ErrorKind_overloaded, Op: op, Err: Plain(err)}
	case errors.Is(err, batch.ErrCorrupt):
		return &Error{Kind: wirecapnp.ErrorKind_invalid, Op: op, Err: err}
	}
	return &Error{Kind: kindOf(err), Op: op, Err: err}
}

// OfContext says that a context has ended.
func OfContext(op string, cause error) *Error { return &Error{Kind: kindOf(cause), Op: op, Err: cause} }

// kindOf knows the ends of contexts.
func kindOf(err error) Kind {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return wirecapnp.ErrorKind_deadlineExceeded
	case errors.Is(err, context.Canceled), errors.Is(err, ErrClosed):
		return wirecapnp.ErrorKind_canceled
	default:
		return wirecapnp.ErrorKind_internal
	}
}

// Unreadable says that an answer breaks the protocol.
func Unreadable(err error) *Error {
	if err == nil {
		err = errors.New("something is missing")
	}
	return &Error{Kind: wirecapnp.ErrorKind_corrupt, Err: fmt.Errorf("answer is unreadable: %w", Plain(err))}
}

// Plain drops the types of an error, except for the ends of contexts and of the client, which callers compare with.
func Plain(err error) error {
	if kindOf(err) != wirecapnp.ErrorKind_internal {
		return err
	}
	return errors.New(err.Error())
}

// Retryable tells whether the same call may succeed later or elsewhere, with nothing done so far.
func Retryable(kind Kind) bool {
	switch kind {
	case wirecapnp.ErrorKind_notLeader, wirecapnp.ErrorKind_staleEpoch, wirecapnp.ErrorKind_staleRouting, wirecapnp.ErrorKind_offsetTiered,
		wirecapnp.ErrorKind_overloaded, wirecapnp.ErrorKind_unavailable, wirecapnp.ErrorKind_deadlineExceeded, wirecapnp.ErrorKind_diskFull,
		wirecapnp.ErrorKind_diskPoisoned, wirecapnp.ErrorKind_outOfOrder:
		return true
	default:
		return false
	}
}
