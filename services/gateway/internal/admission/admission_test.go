package admission

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
)

// Invariant 2: one client's share is full, the other's is not, and both together stay within the budget.
func TestSharesStayWithinTheBudget(t *testing.T) {
	g := New(100, 60, 1, prometheus.NewRegistry())
	slow, quick := g.Share(), g.Share()
	if !slow.TryReserve(60) || slow.TryReserve(1) {
		t.Fatal("a share is not what it should be")
	}
	if !quick.TryReserve(40) || quick.TryReserve(1) {
		t.Fatal("the budget is not what it should be")
	}
	quick.Release(40)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := slow.Reserve(canceled, 1); err == nil {
		t.Fatal("more than the share")
	}
	if err := quick.Reserve(canceled, 41); err == nil {
		t.Fatal("more than the budget")
	}
	if !quick.TryReserve(40) {
		t.Fatal("a failed reservation kept bytes")
	}
	slow.Release(60)
	quick.Release(40)
	if !quick.TryReserve(60) {
		t.Error("a refused reservation kept bytes of the share")
	}
	quick.Release(60)
	if g.bodies.Used() != 0 {
		t.Errorf("%d bytes are left", g.bodies.Used())
	}
}

// Invariant 3.
func TestEnterRefusesWhenAllSlotsAreTaken(t *testing.T) {
	g := New(1, 1, 2, prometheus.NewRegistry())
	first, err := g.Enter()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Enter(); err != nil {
		t.Fatal(err)
	}
	_, err = g.Enter()
	if f, ok := err.(*fault.Error); !ok || f.Kind != fault.Overloaded || f.RetryAfter <= 0 { //nolint:errorlint // the very type is meant.
		t.Fatalf("third: %v", err)
	}
	first()
	if _, err := g.Enter(); err != nil {
		t.Errorf("after one left: %v", err)
	}
}
