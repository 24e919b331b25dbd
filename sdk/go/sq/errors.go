package sq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// Errors to compare with by errors.Is. Each stands for a Kind.
var (
	// ErrOutcomeUnknown: the record may or may not be stored. The connection was lost or the time was over before an answer came.
	ErrOutcomeUnknown error = &kindError{KindOutcomeUnknown, "outcome unknown: the record may or may not be stored"}
	// ErrTopicNotFound: no such topic or partition.
	ErrTopicNotFound error = &kindError{KindNotFound, "topic not found"}
	// ErrTooLarge: a record or batch beyond a limit.
	ErrTooLarge error = &kindError{KindTooLarge, "too large"}
	// ErrInvalid: the call makes no sense as it is.
	ErrInvalid error = &kindError{KindInvalid, "invalid"}
	// ErrTrimmed: the offset is below the log start. See TrimmedError.
	ErrTrimmed error = &kindError{KindOffsetTrimmed, "offset is below the log start"}
	// ErrOffsetOutOfRange: the offset is above the high watermark.
	ErrOffsetOutOfRange error = &kindError{KindOffsetOutOfRange, "offset is above the high watermark"}
	// ErrOverloaded: the cluster refused for load until the context ended.
	ErrOverloaded error = &kindError{KindOverloaded, "overloaded"}
	// ErrDiskFull: the disk of the leader was full until the context ended.
	ErrDiskFull error = &kindError{KindDiskFull, "disk full"}
	// ErrUnavailable: nobody could serve the call until the context ended, or at Open.
	ErrUnavailable error = &kindError{KindUnavailable, "unavailable"}
	// ErrUnauthenticated: the token is missing or wrong.
	ErrUnauthenticated error = &kindError{KindUnauthenticated, "unauthenticated"}
	// ErrDenied: the principal may not do this.
	ErrDenied error = &kindError{KindDenied, "denied"}
	// ErrCorrupt: bytes are not what they should be. See CorruptError.
	ErrCorrupt error = &kindError{KindCorrupt, "corrupt"}
	// ErrClosed: the client or producer was closed.
	ErrClosed = fault.ErrClosed
)

// kindError is what errors.Is compares a Kind with.
type kindError struct {
	kind Kind
	text string
}

// Error gives the text.
func (e *kindError) Error() string { return e.text }

// Error is what every failed call gives, wrapped or not.
type Error struct {
	Kind Kind
	// Op says what was attempted: "publish to orders/3".
	Op string
	// Err is the cause; may be nil.
	Err error
	// RetryAfter is a server's hint, 0 = none.
	RetryAfter time.Duration
	// Offset goes with KindOffsetTrimmed (log start), KindOffsetOutOfRange (high watermark), KindOutOfOrder (next sequence).
	Offset int64

	last  Kind // of the last attempt before the context ended
	tried bool // last is known
}

// Error gives "op: cause".
func (e *Error) Error() string {
	text := e.Kind.String()
	if e.Kind == KindOutcomeUnknown {
		text = "outcome unknown"
	}
	if e.Err != nil {
		cause := e.Err.Error()
		if e.Kind == KindOutcomeUnknown {
			cause = text + ": " + cause
		}
		text = cause
	}
	if e.Op == "" {
		return text
	}
	return e.Op + ": " + text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrTopicNotFound) and its like work. Where a context ended while something was tried again and again, it is also true
// of what the last attempt met: ErrOverloaded, ErrDiskFull, ErrUnavailable.
func (e *Error) Is(target error) bool {
	s, ok := target.(*kindError)
	return ok && (s.kind == e.Kind || e.tried && s.kind == e.last)
}

// KindOf finds the kind of an error of this package. The end of a context is KindDeadlineExceeded or KindCanceled; anything else, nil
// included, is KindInternal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if e, ok := errors.AsType[*TrimmedError](err); ok {
		return e.kind()
	}
	if e, ok := errors.AsType[*CorruptError](err); ok {
		return e.kind()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return KindDeadlineExceeded
	case errors.Is(err, context.Canceled):
		return KindCanceled
	default:
		return KindInternal
	}
}

// TrimmedError says that a reader's position is gone: the log begins later. A loop that goes on after it reads on at Start.
type TrimmedError struct {
	Topic     string
	Partition int
	Offset    int64 // that was asked for
	Start     int64 // where the log begins
}

// Error names all of it.
func (e *TrimmedError) Error() string {
	return fmt.Sprintf("read %s/%d: offset %d is trimmed: the log starts at %d", e.Topic, e.Partition, e.Offset, e.Start)
}

// Is makes errors.Is(err, ErrTrimmed) work.
func (e *TrimmedError) Is(target error) bool { return target == ErrTrimmed }

func (e *TrimmedError) kind() Kind { return KindOffsetTrimmed }

// CorruptError says that a batch cannot be decoded. A loop that goes on after it skips [Offset, Next).
type CorruptError struct {
	Topic     string
	Partition int
	Offset    int64
	Next      int64 // where reading can go on; equal to Offset if that is not known, and the loop ends
	Err       error
}

// Error names all of it.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("read %s/%d: offsets [%d, %d) cannot be decoded: %v", e.Topic, e.Partition, e.Offset, e.Next, e.Err)
}

// Unwrap gives the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrCorrupt) work.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

func (e *CorruptError) kind() Kind { return KindCorrupt }

// errorOf makes an Error of whatever the layers below gave. It keeps no type of theirs.
func errorOf(op string, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		if e.Op != "" {
			return e
		}
		again := *e
		again.Op = op
		return &again
	}
	e := fault.Of(op, err)
	out := &Error{Kind: Kind(e.Kind), Op: e.Op, Err: e.Err, RetryAfter: e.RetryAfter, Offset: e.Offset}
	if out.Kind == KindDeadlineExceeded || out.Kind == KindCanceled {
		if last, ok := errors.AsType[*fault.Error](e.Err); ok {
			out.last, out.tried = Kind(last.Kind), true
		}
	}
	return out
}

// faultOf is the other way round, for the layers below that judge an error of ours; nil stays nil.
func faultOf(err error) error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return err
	}
	return &fault.Error{Kind: fault.Kind(e.Kind), Op: e.Op, Err: e.Err, RetryAfter: e.RetryAfter, Offset: e.Offset}
}

func invalidf(op, format string, args ...any) *Error {
	return &Error{Kind: KindInvalid, Op: op, Err: fmt.Errorf(format, args...)}
}
