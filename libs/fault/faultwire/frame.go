package faultwire

import (
	"context"
	"errors"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// ToRemote makes what a frame.Server answers of an error. It never returns nil.
func ToRemote(err error) *frame.RemoteError {
	out := &frame.RemoteError{Kind: wirecapnp.ErrorKind(fault.KindOf(err)), Text: err.Error()}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		out.RetryAfter, out.Offset, out.Epoch = f.RetryAfter, f.Offset, f.Epoch
	}
	return out
}

// FromCall gives the fault of an error that a frame.Client returned: what was answered keeps its kind and details, a call that was sent and
// not answered is OutcomeUnknown, one that was not sent is Unavailable, or what its context ended with. FromCall(nil) is nil.
func FromCall(err error) error {
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f
	}
	if conn, ok := errors.AsType[*frame.ConnError](err); ok {
		return &fault.Error{Kind: kindOfConn(conn), Err: err}
	}
	if remote, ok := errors.AsType[*frame.RemoteError](err); ok {
		return fromRemote(remote)
	}
	if errors.Is(err, frame.ErrOverBudget) {
		return &fault.Error{Kind: fault.Overloaded, Err: err, RetryAfter: overBudgetRetry}
	}
	if format, ok := errors.AsType[*frame.FormatError](err); ok {
		return &fault.Error{Kind: fault.Kind(format.Kind), Err: err}
	}
	return &fault.Error{Kind: fault.KindOf(err), Err: err}
}

// overBudgetRetry is the hint of a call whose answer had no room here.
const overBudgetRetry = 100 * time.Millisecond

func kindOfConn(err *frame.ConnError) fault.Kind {
	switch {
	case err.Sent:
		return fault.OutcomeUnknown
	case errors.Is(err.Err, context.DeadlineExceeded):
		return fault.DeadlineExceeded
	case errors.Is(err.Err, context.Canceled):
		return fault.Canceled
	default:
		return fault.Unavailable
	}
}

func fromRemote(err *frame.RemoteError) *fault.Error {
	kind := fault.Kind(err.Kind)
	if kind.String() == fault.Internal.String() {
		kind = fault.Internal // a number that this build does not know
	}
	return &fault.Error{Kind: kind, Op: err.Text, RetryAfter: err.RetryAfter, Offset: err.Offset, Epoch: err.Epoch}
}
