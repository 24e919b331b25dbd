package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/reconcile"
)

// runLoop runs a's loop over a view that nobody keeps fresh: what it sees it has read itself.
func runLoop(t *testing.T, w *world) {
	t.Helper()
	w.coords["a"].views.still = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.coords["a"].loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("loop: %v", err)
		}
	})
}

func (w *world) must(commands ...[]string) {
	w.t.Helper()
	for _, words := range commands {
		if _, err := w.do(words); err != nil {
			w.t.Fatalf("%v: %v", words, err)
		}
	}
}

// leader gives the leader and epoch of the only partition as the store has them.
func (w *world) leader() topology.Assignment {
	w.t.Helper()
	kvs, _, err := w.store.List(w.ctx, topology.PartitionsPrefix, 0)
	if err != nil || len(kvs) != 1 {
		w.t.Fatalf("%d partitions, %v", len(kvs), err)
	}
	a, err := topology.Decode[topology.Assignment](kvs[0].Value)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// rest waits until the loop sleeps: the leases' timer and the loop's own are all there are.
func (w *world) rest() {
	w.t.Helper()
	if err := w.clock.AwaitPending(w.ctx, 2); err != nil {
		w.t.Fatal(err)
	}
}

// After a pause the loop reads before it nominates: the view it slept with is old (R21).
func TestReadsAnewAfterAPause(t *testing.T) {
	w := newWorld(t)
	w.must([]string{"elect", "a"}, []string{"broker", "1", "up"}, []string{"create", "orders"})
	runLoop(t, w)
	w.rest()
	w.must([]string{"broker", "1", "up"})
	w.clock.Advance(time.Second) // a tick in time looks at the view only
	w.rest()
	if a := w.leader(); a.Epoch != 1 {
		t.Fatalf("epoch %d: somebody else reads for the loop, and the test shows nothing", a.Epoch)
	}
	w.clock.Advance(5 * time.Second)
	w.rest()
	if a := w.leader(); a.Epoch != 2 || a.Leader.Incarnation != 2 {
		t.Errorf("epoch %d, leader %+v", a.Epoch, a.Leader)
	}
}

// What is being created is not collected; what nobody creates is.
func TestLeavesATopicInTheMakingAlone(t *testing.T) {
	id := partition.UUIDOf(0, 7)
	v := &topology.View{Partitions: map[partition.UUID][]topology.Versioned[topology.Assignment]{id: {{ModRevision: 3}}}}
	for making, want := range map[bool]int{true: 0, false: 1} {
		p := reconcile.Planner{Creating: func(asked partition.UUID) bool { return making && asked == id }}
		if got := p.Look(v, nil, time.Time{}).Decide(nil, nil); len(got.Collections) != want || len(got.Changes) != 0 {
			t.Errorf("making %v: %+v", making, got)
		}
	}
}

// A deposed coordinator's loop stops writing, and says so to the election.
func TestDeposedLoopWritesNothing(t *testing.T) {
	w := newWorld(t)
	w.must([]string{"elect", "a"}, []string{"broker", "1", "up"}, []string{"create", "orders"}, []string{"elect", "b"}, []string{"broker", "1", "up"})
	runLoop(t, w)
	w.rest()
	if a := w.leader(); a.Epoch != 1 {
		t.Errorf("epoch %d", a.Epoch)
	}
	if _, err := w.coords["a"].Guard(); err == nil {
		t.Error("it still believes in its term")
	}
}
