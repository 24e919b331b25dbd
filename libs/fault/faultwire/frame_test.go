package faultwire_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Invariant 1, over frame.
func TestRemoteRoundTrip(t *testing.T) {
	in := &fault.Error{Kind: fault.OffsetTiered, Op: "read below the local start", Offset: 42, Epoch: 7, RetryAfter: time.Second}
	got := faultwire.FromCall(faultwire.ToRemote(fault.Wrap("fetch orders/3", in)))
	want := &fault.Error{Kind: fault.OffsetTiered, Op: "fetch orders/3: read below the local start", Offset: 42, Epoch: 7, RetryAfter: time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("fault over frame (-want +got):\n%s", diff)
	}
}

func TestFromCall(t *testing.T) {
	cause := errors.New("connection reset")
	for name, test := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"unknown kind number":  {&frame.RemoteError{Kind: wirecapnp.ErrorKind(900), Text: "x"}, fault.Internal},
		"sent":                 {&frame.ConnError{Sent: true, Err: cause}, fault.OutcomeUnknown},
		"sent, then timed out": {&frame.ConnError{Sent: true, Err: context.DeadlineExceeded}, fault.OutcomeUnknown},
		"not sent":             {&frame.ConnError{Err: cause}, fault.Unavailable},
		"not sent in time":     {&frame.ConnError{Err: context.DeadlineExceeded}, fault.DeadlineExceeded},
		"not sent, canceled":   {&frame.ConnError{Err: context.Canceled}, fault.Canceled},
		"over budget":          {frame.ErrOverBudget, fault.Overloaded},
		"refused while sent":   {&frame.ConnError{Sent: true, Err: &frame.RemoteError{Kind: wirecapnp.ErrorKind_invalid}}, fault.OutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			if got := fault.KindOf(faultwire.FromCall(test.err)); got != test.want {
				t.Fatalf("kind %v, want %v", got, test.want)
			}
		})
	}
	if faultwire.FromCall(nil) != nil {
		t.Fatal("no error became one")
	}
}
