package frame

import (
	"errors"
	"fmt"
	"time"

	"github.com/seedqueue/sq/proto/frame/internal/outbox"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Errors of this package's own.
var (
	// ErrClosed: the connection was closed on this side.
	ErrClosed = outbox.ErrClosed
	// ErrGoingAway: the server has said that it takes no more calls on this connection.
	ErrGoingAway = errors.New("server is going away")
	// ErrOverBudget: there is no room in the budget for a body; the body was read over, the connection is intact.
	ErrOverBudget = errors.New("no room in the memory budget for the body")
	// ErrAnswered: the request has been answered already.
	ErrAnswered = errors.New("request is answered already")
	// ErrStalled: the peer sent or took nothing for too long.
	ErrStalled = outbox.ErrStalled
)

// FormatError says that what arrived is not what the protocol allows. The stream is of no more use behind it.
type FormatError struct {
	Kind   wirecapnp.ErrorKind // invalid, tooLarge, unsupportedVersion
	Reason string
}

// Error gives the reason.
func (e *FormatError) Error() string { return e.Reason }

func formatErrorf(kind wirecapnp.ErrorKind, format string, args ...any) *FormatError {
	return &FormatError{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// RemoteError is an error that was answered.
type RemoteError struct {
	Kind       wirecapnp.ErrorKind
	Text       string
	RetryAfter time.Duration // a hint of overloaded and unavailable, 0 = none
	Offset     uint64        // offsetTrimmed: log start; offsetTiered: local start; offsetOutOfRange: high watermark; outOfOrder: next sequence
	Epoch      uint64        // that the answering replica knows, 0 = not told
}

// Error gives "kind: text".
func (e *RemoteError) Error() string {
	if e.Text == "" {
		return e.Kind.String()
	}
	return e.Kind.String() + ": " + e.Text
}

// Errorf makes a RemoteError of a kind.
func Errorf(kind wirecapnp.ErrorKind, format string, args ...any) *RemoteError {
	return &RemoteError{Kind: kind, Text: fmt.Sprintf(format, args...)}
}

// ConnError says that a call failed with its connection, or was given up by its context.
type ConnError struct {
	// Sent is false if the request was certainly not written whole and so not carried out; true if its outcome is unknown.
	Sent bool
	Err  error
}

// Error names the outcome and the cause.
func (e *ConnError) Error() string {
	if e.Sent {
		return "call has no answer, outcome unknown: " + e.Err.Error()
	}
	return "call was not sent: " + e.Err.Error()
}

// Unwrap gives the cause.
func (e *ConnError) Unwrap() error { return e.Err }

// ReadError takes an error apart that came over the wire.
func ReadError(in wirecapnp.Error) *RemoteError {
	text, err := in.Text()
	if err != nil {
		text = "unreadable error text"
	}
	return &RemoteError{
		Kind:       in.Kind(),
		Text:       text,
		RetryAfter: time.Duration(in.RetryAfterMillis()) * time.Millisecond,
		Offset:     in.Offset(),
		Epoch:      in.Epoch(),
	}
}

// Write puts the error on the wire.
func (e *RemoteError) Write(out wirecapnp.Error) error {
	out.SetKind(e.Kind)
	out.SetRetryAfterMillis(uint32(min(max(e.RetryAfter.Milliseconds(), 0), 1<<31)))
	out.SetOffset(e.Offset)
	out.SetEpoch(e.Epoch)
	text := e.Text
	if len(text) > errorTextBytes {
		text = text[:errorTextBytes]
	}
	if err := out.SetText(text); err != nil {
		return fmt.Errorf("set error text: %w", err)
	}
	return nil
}

// remoteOf is what a server tells about an error of its own.
func remoteOf(err error) *RemoteError {
	if remote, ok := errors.AsType[*RemoteError](err); ok {
		return remote
	}
	if format, ok := errors.AsType[*FormatError](err); ok {
		return &RemoteError{Kind: format.Kind, Text: format.Reason}
	}
	switch {
	case errors.Is(err, ErrOverBudget):
		return &RemoteError{Kind: wirecapnp.ErrorKind_overloaded, Text: err.Error(), RetryAfter: retryAfter}
	case errors.Is(err, ErrTruncated):
		return &RemoteError{Kind: wirecapnp.ErrorKind_invalid, Text: err.Error()}
	case errors.Is(err, ErrStalled):
		return &RemoteError{Kind: wirecapnp.ErrorKind_deadlineExceeded, Text: err.Error()}
	default:
		return &RemoteError{Kind: wirecapnp.ErrorKind_internal, Text: err.Error()}
	}
}
