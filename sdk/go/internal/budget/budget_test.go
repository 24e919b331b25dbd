package budget_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/budget"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// full tells whether n bytes would have to wait.
func full(a *budget.Account, n int) bool {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := a.Take(ctx, nil, n); err != nil {
		return true
	}
	a.Give(n)
	return false
}

func TestSharesOfTheBudget(t *testing.T) {
	b := budget.New(100)
	ctx := context.Background()
	writer, small, reader, other := b.Account(100, false), b.Account(10, false), b.Account(100, true), b.Account(100, true)
	take := func(a *budget.Account, n int) {
		t.Helper()
		if full(a, n) {
			t.Fatalf("no room for %d with %d used", n, b.Used())
		}
		_ = a.Take(ctx, nil, n)
	}
	if err := small.Take(ctx, nil, 11); full(small, 10) || err == nil || fault.Of("", err).Kind != wirecapnp.ErrorKind_tooLarge {
		t.Errorf("an account's own limit: %v", err)
	}
	take(reader, 50)
	if !full(reader, 1) {
		t.Error("readers take more than half")
	}
	take(writer, 50)
	if !full(writer, 1) || !full(small, 1) {
		t.Error("more than the whole")
	}
	take(other, 40) // a reader that has nothing may always take
	if !full(other, 1) {
		t.Error("but only once")
	}
	other.Give(40)
	reader.Adjust(30) // what is there is there
	if b.Used() != 130 {
		t.Errorf("%d used", b.Used())
	}
	reader.Give(80)
	take(writer, 50)
	writer.Give(100)
	if b.Used() != 0 {
		t.Errorf("%d used", b.Used())
	}
}

func TestTakeWaits(t *testing.T) {
	b := budget.New(10)
	a := b.Account(10, false)
	if err := a.Take(t.Context(), nil, 8); err != nil {
		t.Fatal(err)
	}
	waiting := make(chan error)
	go func() { waiting <- a.Take(t.Context(), nil, 5) }()
	a.Give(8)
	if err := <-waiting; err != nil || b.Used() != 5 {
		t.Errorf("%v, %d used", err, b.Used())
	}
	done := make(chan struct{})
	go func() { waiting <- a.Take(t.Context(), done, 6) }()
	close(done)
	if err := <-waiting; !errors.Is(err, fault.ErrClosed) {
		t.Error(err)
	}
}
