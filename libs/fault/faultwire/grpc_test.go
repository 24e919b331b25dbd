package faultwire

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seedqueue/sq/libs/fault"
)

func TestStatusKeepsKindTextAndDetails(t *testing.T) {
	for kind := fault.Internal; kind <= fault.DataDirInUse; kind++ {
		in := &fault.Error{Kind: kind, Op: "fetch orders/3", Err: errors.New("gone"), Offset: 1 << 60, Epoch: 7, RetryAfter: 1500 * time.Millisecond}
		st := ToStatus(fmt.Errorf("answer: %w", in))
		if st.Code() != kind.GRPC() {
			t.Errorf("%v: code %v, want %v", kind, st.Code(), kind.GRPC())
		}
		got := FromStatus(st)
		want := &fault.Error{Kind: kind, Op: "answer: fetch orders/3: gone", Offset: 1 << 60, Epoch: 7, RetryAfter: 1500 * time.Millisecond}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v changed on the wire (-want +got):\n%s", kind, diff)
		}
	}
}

func TestStatusOfPlainErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want fault.Kind
	}{
		"a plain error":    {errors.New("boom"), fault.Internal},
		"an ended context": {context.Canceled, fault.Canceled},
		"a late answer":    {fmt.Errorf("wait: %w", context.DeadlineExceeded), fault.DeadlineExceeded},
		"a foreign status": {status.Error(codes.Unavailable, "connection refused"), fault.Unavailable},
		"unknown reason":   {ToStatusReason(fault.Errorf(fault.Unavailable, "standing by"), "NOT_COORDINATOR").Err(), fault.Unavailable},
	} {
		if got := FromStatus(ToStatus(c.err)).Kind; got != c.want {
			t.Errorf("%s: kind %v, want %v", name, got, c.want)
		}
	}
	if ToStatus(nil).Code() != codes.OK || FromGRPC(nil) != nil {
		t.Error("no error became one")
	}
}

func TestReasonOfItsOwn(t *testing.T) {
	err := ToStatusReason(fault.Errorf(fault.Unavailable, "standing by"), "NOT_COORDINATOR").Err()
	if got := Reason(err); got != "NOT_COORDINATOR" {
		t.Errorf("reason %q", got)
	}
	if got := Reason(errors.New("boom")); got != "" {
		t.Errorf("a plain error has the reason %q", got)
	}
}

func TestStatusTextIsBoundedUTF8(t *testing.T) {
	st := ToStatus(errors.New(strings.Repeat("ü", messageBytesMax) + "\xff"))
	if !utf8.ValidString(st.Message()) || len(st.Message()) > messageBytesMax+4 {
		t.Errorf("%d bytes, valid UTF-8: %v", len(st.Message()), utf8.ValidString(st.Message()))
	}
}

func TestUnaryServerTranslates(t *testing.T) {
	_, err := UnaryServer(t.Context(), nil, nil, func(context.Context, any) (any, error) {
		return nil, fault.Errorf(fault.OffsetTrimmed, "read 3")
	})
	if got := Reason(err); got != "OFFSET_TRIMMED" {
		t.Errorf("reason %q of %v", got, err)
	}
}
