package fault_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

func TestOf(t *testing.T) {
	overloaded := frame.Errorf(wirecapnp.ErrorKind_overloaded, "too much")
	for _, c := range []struct {
		name string
		err  error
		want fault.Kind
		text string
	}{
		{"answered", overloaded, wirecapnp.ErrorKind_overloaded, "op: too much"},
		{"lost", &frame.ConnError{Sent: true, Err: errors.New("reset")}, wirecapnp.ErrorKind_outcomeUnknown, "op: reset"},
		// A connection that ended with an error of the server's answers no call on it.
		{"lost with a reason", &frame.ConnError{Sent: true, Err: overloaded}, wirecapnp.ErrorKind_outcomeUnknown, "op: overloaded: too much"},
		{"not sent", &frame.ConnError{Err: errors.New("reset")}, wirecapnp.ErrorKind_unavailable, "op: reset"},
		{"not sent in time", &frame.ConnError{Err: context.DeadlineExceeded}, wirecapnp.ErrorKind_deadlineExceeded, "op: context deadline exceeded"},
		{"sent, and time is over", &frame.ConnError{Sent: true, Err: context.DeadlineExceeded}, wirecapnp.ErrorKind_outcomeUnknown, "op: context deadline exceeded"},
		{"too large", &batch.TooLargeError{What: "key", Size: 2, Limit: 1}, wirecapnp.ErrorKind_tooLarge, "op: key is too large: 2, the limit is 1"},
		{"closed", fmt.Errorf("x: %w", fault.ErrClosed), wirecapnp.ErrorKind_canceled, "op: closed"},
		{"canceled", context.Canceled, wirecapnp.ErrorKind_canceled, "op: context canceled"},
		{"anything", errors.New("boom"), wirecapnp.ErrorKind_internal, "op: boom"},
		{"one of ours", fault.Errorf(wirecapnp.ErrorKind_denied, "no"), wirecapnp.ErrorKind_denied, "op: no"},
		{"one with its own op", &fault.Error{Kind: wirecapnp.ErrorKind_denied, Op: "inner"}, wirecapnp.ErrorKind_denied, "inner: denied"},
	} {
		got := fault.Of("op", c.err)
		if got.Kind != c.want || got.Error() != c.text {
			t.Errorf("%s: %v: %q", c.name, got.Kind, got)
		}
		if remote := (*frame.RemoteError)(nil); errors.As(got, &remote) {
			t.Errorf("%s: a type of the protocol is in the chain", c.name)
		}
	}
	if err := fault.Of("op", &frame.ConnError{Err: context.DeadlineExceeded}); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("the end of a context cannot be recognised")
	}
}
