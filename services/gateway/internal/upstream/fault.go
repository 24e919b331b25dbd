package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/frame"
)

// overBudgetRetry is the hint where an answer had no room in memory.
const overBudgetRetry = 250 * time.Millisecond

// errMoved is why an answer is given up that a later leader has made pointless.
var errMoved = errors.New("the partition has a new leader")

// errClosed: the Caller is closing.
var errClosed = errors.New("the gateway is closing the connection")

func errClosing() error {
	return &fault.Error{Kind: fault.Unavailable, Op: "call a broker", Err: errClosed}
}

// Fault gives what a call ended with as a fault. What was sent and has no answer is OutcomeUnknown.
func Fault(err error) error {
	if err == nil {
		return nil
	}
	if remote, ok := errors.AsType[*frame.RemoteError](err); ok {
		return &fault.Error{
			Kind: knownKind(fault.Kind(remote.Kind)), Op: remote.Text,
			RetryAfter: remote.RetryAfter, Offset: remote.Offset, Epoch: remote.Epoch,
		}
	}
	if conn, ok := errors.AsType[*frame.ConnError](err); ok {
		if conn.Sent {
			return &fault.Error{Kind: fault.OutcomeUnknown, Err: conn}
		}
		return &fault.Error{Kind: unsentKind(conn.Err), Err: conn}
	}
	if errors.Is(err, frame.ErrOverBudget) {
		return &fault.Error{Kind: fault.Overloaded, Op: "read an answer", Err: err, RetryAfter: overBudgetRetry}
	}
	return err
}

// unsentKind: it was certainly not done.
func unsentKind(cause error) fault.Kind {
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return fault.DeadlineExceeded
	case errors.Is(cause, context.Canceled):
		return fault.Canceled
	default:
		return fault.Unavailable
	}
}

// knownKind turns the kinds of a later release into Internal.
func knownKind(kind fault.Kind) fault.Kind {
	if kind.String() == fault.Internal.String() {
		return fault.Internal
	}
	return kind
}

// refused tells whether an attempt was certainly not carried out and another one may be: it is about where, not about what.
func refused(err error) bool {
	switch fault.KindOf(err) {
	case fault.NotLeader, fault.StaleEpoch, fault.Unavailable, fault.DiskPoisoned:
		return true
	default:
		return false
	}
}

// again tells whether a read may be repeated after err.
func again(err error) bool { return refused(err) || fault.Is(err, fault.OutcomeUnknown) }

// readFault turns the unknown outcome of a read, which harms nobody, into what the caller can act on.
func readFault(ctx context.Context, err error) error {
	if !fault.Is(err, fault.OutcomeUnknown) {
		return err
	}
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &fault.Error{Kind: fault.DeadlineExceeded, Op: "wait for an answer", Err: err}
	case ctx.Err() != nil:
		return &fault.Error{Kind: fault.Canceled, Op: "wait for an answer", Err: err}
	default:
		return &fault.Error{Kind: fault.Unavailable, Op: "wait for an answer", Err: err}
	}
}

func asFault(err error) (*fault.Error, bool) { return errors.AsType[*fault.Error](err) }
