package fault

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind says what went wrong in a way that a program can act on.
type Kind uint16

// The kinds, numbered as ErrorKind in wire.capnp.
const (
	Internal Kind = iota
	Invalid
	NotFound
	Exists
	Conflict
	NotLeader
	StaleEpoch
	StaleRouting
	OffsetTiered
	OffsetTrimmed
	OffsetOutOfRange
	TooLarge
	Overloaded
	Unavailable
	OutcomeUnknown
	DeadlineExceeded
	Canceled
	Unauthenticated
	Denied
	UnsupportedVersion
	Corrupt
	DiskFull
	DiskPoisoned
	SequenceReused
	OutOfOrder
	UnknownProducer
	Diverged
	WrongCluster
	DataDirInUse

	kinds // how many there are
)

// Error is an error with a kind. The zero value is an internal error without a text.
type Error struct {
	Kind Kind
	// Op says what was attempted, as a present-tense verb and an object: "open segment 42".
	Op string
	// Err is the cause; may be nil.
	Err error
	// RetryAfter is a hint for Overloaded and Unavailable, 0 = none.
	RetryAfter time.Duration
	// Offset: OffsetTrimmed = log start; OffsetTiered = local start; OffsetOutOfRange = high watermark; OutOfOrder = next sequence;
	// Corrupt = behind the damage, 0 = not known.
	Offset uint64
	// Epoch that the answering replica knows, 0 = not told.
	Epoch uint64
}

// Error gives "op: cause", or the kind's name where neither is set.
func (e *Error) Error() string {
	switch {
	case e.Op != "" && e.Err != nil:
		return e.Op + ": " + e.Err.Error()
	case e.Op != "":
		return e.Op
	case e.Err != nil:
		return e.Err.Error()
	default:
		return e.Kind.String()
	}
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error of a kind; the text is formatted as by fmt.Errorf, %w included.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Err: fmt.Errorf(format, args...)}
}

// Wrap puts an operation before an error and keeps its kind and details. Wrap(op, nil) is nil.
func Wrap(op string, err error) error {
	if err == nil {
		return nil
	}
	wrapped := &Error{Kind: KindOf(err), Op: op, Err: err}
	if inner, ok := errors.AsType[*Error](err); ok {
		wrapped.RetryAfter, wrapped.Offset, wrapped.Epoch = inner.RetryAfter, inner.Offset, inner.Epoch
	}
	return wrapped
}

// KindOf finds the kind of the outermost Error in the chain. A context's end is DeadlineExceeded or Canceled; anything else, nil
// included, is Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return DeadlineExceeded
	case errors.Is(err, context.Canceled):
		return Canceled
	default:
		return Internal
	}
}

// Is tells whether err is not nil and of the kind.
func Is(err error, kind Kind) bool { return err != nil && KindOf(err) == kind }
