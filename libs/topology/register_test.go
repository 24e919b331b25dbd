package topology_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
)

func newStore(t *testing.T) (*memstore.Store, *clock.Manual) {
	t.Helper()
	clk := clock.NewManual(day)
	store := memstore.New(clk)
	t.Cleanup(func() { _ = store.Close() })
	return store, clk
}

func counter() func() partition.UUID {
	n := byte(0)
	return func() partition.UUID { n++; return uuid(n) }
}

func TestBootstrap(t *testing.T) {
	store, clk := newStore(t)
	boot := func(want partition.UUID) (topology.Versioned[topology.Cluster], error) {
		return topology.Bootstrap(t.Context(), store, want, clk, counter())
	}
	first, err := boot(partition.UUID{})
	if err != nil || first.Value.ID.IsZero() || first.Value.Lineage.IsZero() || first.Value.Generation != 1 || first.ModRevision == 0 {
		t.Fatalf("first: %+v, %v", first, err)
	}
	for _, want := range []partition.UUID{{}, first.Value.ID} {
		if again, err := boot(want); err != nil || again != first {
			t.Errorf("again with %v: %+v, %v", want, again, err)
		}
	}
	if _, err := boot(uuid(77)); !fault.Is(err, fault.WrongCluster) || !strings.Contains(err.Error(), "belongs to cluster "+first.Value.ID.String()) {
		t.Errorf("other cluster: %v", err)
	}
	store.SetUnavailable(true)
	if _, err := boot(partition.UUID{}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("store away: %v", err)
	}
}

func TestBootstrapWantedID(t *testing.T) {
	store, clk := newStore(t)
	made, err := topology.Bootstrap(t.Context(), store, uuid(42), clk, counter())
	if err != nil || made.Value.ID != uuid(42) {
		t.Errorf("made %+v, %v", made, err)
	}
}

// TestBootstrapUnanswered has a store that applies the write and does not say so.
func TestBootstrapUnanswered(t *testing.T) {
	store, clk := newStore(t)
	store.SetFaults(func(c memstore.Call) memstore.Fault {
		if c.Method == memstore.Txn {
			return memstore.Ambiguous
		}
		return memstore.None
	})
	made, err := topology.Bootstrap(t.Context(), store, partition.UUID{}, clk, counter())
	if err != nil || made.Value.ID.IsZero() {
		t.Errorf("made %+v, %v", made, err)
	}
}

func TestBootstrapRefusesNewerSchema(t *testing.T) {
	store, clk := newStore(t)
	if _, err := store.Txn(t.Context(), nil, []topology.Op{{Key: topology.ClusterKey, Value: []byte(`{"v":2}`)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Bootstrap(t.Context(), store, partition.UUID{}, clk, counter()); !fault.Is(err, fault.UnsupportedVersion) {
		t.Errorf("error %v", err)
	}
}

func TestClaimBrokerRaces(t *testing.T) {
	store, _ := newStore(t)
	const racers = 8
	claims := make([]topology.Claim, racers)
	var tasks sync.WaitGroup
	for i := range racers {
		tasks.Go(func() {
			claim, err := topology.ClaimBroker(t.Context(), store, 7, "zone-a", nil)
			if err != nil {
				t.Error(err)
			}
			claims[i] = claim
		})
	}
	tasks.Wait()
	seen := map[partition.Incarnation]bool{}
	for _, claim := range claims {
		if seen[claim.Incarnation] {
			t.Errorf("incarnation %d given twice", claim.Incarnation)
		}
		seen[claim.Incarnation] = true
	}
	if !seen[1] || !seen[racers] {
		t.Errorf("incarnations %v", seen)
	}
}

const ttl = 6 * time.Second

func register(t *testing.T, store topology.Store, incarnation partition.Incarnation, guards ...topology.Compare) (*topology.Registration, error) {
	t.Helper()
	return topology.Register(t.Context(), store, topology.RegisterParams{
		Key: topology.BrokerLiveKey(7), Live: topology.Live{ID: "7", Node: 7, Incarnation: incarnation}, TTL: ttl, Guards: guards,
	})
}

func mustRegister(t *testing.T, store topology.Store, incarnation partition.Incarnation) *topology.Registration {
	t.Helper()
	r, err := register(t, store, incarnation)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func holder(t *testing.T, store topology.Store) (topology.Live, topology.LeaseID, bool) {
	t.Helper()
	kv, ok, _, err := store.Get(t.Context(), topology.BrokerLiveKey(7))
	if err != nil || !ok {
		return topology.Live{}, 0, false
	}
	live, err := topology.Decode[topology.Live](kv.Value)
	if err != nil {
		t.Fatal(err)
	}
	return live, kv.Lease, true
}

func TestRegisterReplacesTheOldLife(t *testing.T) {
	store, _ := newStore(t)
	old := mustRegister(t, store, 1)
	next := mustRegister(t, store, 2) // at once: the old lease has not run out
	live, lease, _ := holder(t, store)
	if live.Incarnation != 2 || live.Lease != lease || live != next.Live() {
		t.Errorf("the key says %+v under lease %d", live, lease)
	}
	if err := store.KeepAliveOnce(t.Context(), old.Live().Lease); err == nil {
		t.Error("the old lease was not revoked")
	}
	if err := old.Renew(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("renewal of the old life: %v", err)
	}
	select {
	case <-old.Lost():
	default:
		t.Error("the old life does not know that it is lost")
	}
	if err := next.Renew(t.Context()); err != nil {
		t.Errorf("renewal of the new life: %v", err)
	}
	if _, err := register(t, store, 1); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "incarnation 2 has it") {
		t.Errorf("an older life registers: %v", err)
	}
	if err := next.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, ok := holder(t, store); ok {
		t.Error("the key is there after close")
	}
}

func TestRenewAfterTheLeaseEnded(t *testing.T) {
	store, clk := newStore(t)
	r := mustRegister(t, store, 3)
	first := r.Live().Lease
	clk.Advance(ttl + time.Second)
	if _, _, ok := holder(t, store); ok {
		t.Fatal("the lease did not end")
	}
	if err := r.Renew(t.Context()); err != nil {
		t.Fatal(err)
	}
	if live, lease, ok := holder(t, store); !ok || lease == first || live.Incarnation != 3 || r.Live() != live {
		t.Errorf("after the renewal the key says %+v, %v", live, ok)
	}
}

// TestRegisterUnanswered has a store that applies the write and does not say so: one lease holds the key and no other is left.
func TestRegisterUnanswered(t *testing.T) {
	store, _ := newStore(t)
	lost := 0
	store.SetFaults(func(c memstore.Call) memstore.Fault {
		if c.Method == memstore.Txn && lost == 0 {
			lost++
			return memstore.Ambiguous
		}
		return memstore.None
	})
	r := mustRegister(t, store, 1)
	if live, lease, ok := holder(t, store); !ok || live != r.Live() || lease != r.Live().Lease {
		t.Errorf("the key says %+v under %d, the registration %+v", live, lease, r.Live())
	}
}

func TestRegisterHonoursItsGuards(t *testing.T) {
	store, _ := newStore(t)
	claim, err := topology.ClaimBroker(t.Context(), store, 7, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := register(t, store, claim.Incarnation, claim.Guard); err != nil {
		t.Fatal(err)
	}
	if _, err := topology.ClaimBroker(t.Context(), store, 7, "", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := register(t, store, claim.Incarnation, claim.Guard); !fault.Is(err, fault.Conflict) {
		t.Errorf("registering after a later claim: %v", err)
	}
}

// TestRegisterByRevision has processes without an ident: whoever comes later wins, without a clock.
func TestRegisterByRevision(t *testing.T) {
	store, clk := newStore(t)
	first := mustRegister(t, store, 0)
	second := mustRegister(t, store, 0)
	if second.Live().Incarnation <= first.Live().Incarnation {
		t.Fatalf("incarnations %d, then %d", first.Live().Incarnation, second.Live().Incarnation)
	}
	clk.Advance(ttl + time.Second) // both are gone
	third := mustRegister(t, store, 0)
	if err := second.Renew(t.Context()); !fault.Is(err, fault.Conflict) {
		t.Errorf("renewal of the second: %v", err)
	}
	if live, _, _ := holder(t, store); live != third.Live() {
		t.Errorf("the key says %+v", live)
	}
}

func TestKeep(t *testing.T) {
	store, clk := newStore(t)
	r := mustRegister(t, store, 1)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Keep(ctx, clk, slog.New(slog.DiscardHandler)) }()
	for range 20 { // far beyond the TTL
		if err := clk.AwaitPending(t.Context(), 2); err != nil { // the store's lease timer and Keep's
			t.Fatal(err)
		}
		clk.Advance(ttl / 4)
	}
	if live, _, ok := holder(t, store); !ok || live != r.Live() {
		t.Errorf("the key says %+v, %v", live, ok)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after its context's end: %v", err)
	}

	go func() { done <- r.Keep(t.Context(), clk, slog.New(slog.DiscardHandler)) }()
	mustRegister(t, store, 2)
	for {
		select {
		case err := <-done:
			if !fault.Is(err, fault.Conflict) {
				t.Errorf("after a later life began: %v", err)
			}
			return
		default:
			if err := clk.AwaitPending(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			clk.Advance(ttl / 4)
			mustRegisterAgain(t, store)
		}
	}
}

// mustRegisterAgain keeps the later life there, whatever its lease.
func mustRegisterAgain(t *testing.T, store topology.Store) {
	t.Helper()
	if _, err := register(t, store, 2); err != nil {
		t.Fatal(err)
	}
}
