package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/lease"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 6 * time.Second

// world is a broker's surroundings in fake time.
type world struct {
	store *memstore.Store
	dir   *faultfs.FS
}

func inWorld(t *testing.T, test func(t *testing.T, w world)) {
	synctest.Test(t, func(t *testing.T) {
		w := world{store: memstore.New(clock.Real()), dir: faultfs.New(memfs.New(), clock.Real())}
		defer w.store.Close()
		test(t, w)
	})
}

// take registers broker 1 in its next life.
func (w world) take(t *testing.T) (*lease.Lease, error) {
	t.Helper()
	claim, err := topology.ClaimBroker(t.Context(), w.store, 1, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := lease.New(lease.Config{
		Store: w.store, Dir: w.dir, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Params: topology.RegisterParams{
			Key: topology.BrokerLiveKey(1), TTL: ttl, Guards: []topology.Compare{claim.Guard},
			Live: topology.Live{ID: "1", Node: 1, Incarnation: claim.Incarnation},
		},
	})
	if err != nil {
		return nil, err
	}
	if err := l.Take(t.Context()); err != nil {
		return nil, errors.Join(err, l.Close(t.Context()))
	}
	return l, nil
}

func (w world) mustTake(t *testing.T) *lease.Lease {
	t.Helper()
	l, err := w.take(t)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// live gives the incarnation that is registered, 0 = none.
func (w world) live(t *testing.T) partition.Incarnation {
	t.Helper()
	kv, ok, _, err := w.store.Get(t.Context(), topology.BrokerLiveKey(1))
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return 0
	}
	live, err := topology.Decode[topology.Live](kv.Value)
	if err != nil {
		t.Fatal(err)
	}
	return live.Incarnation
}

// run runs a lease until stop, which gives what Run returned.
func run(t *testing.T, l *lease.Lease) (stop func() error, ended <-chan error) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Run(ctx) }()
	return func() error { cancel(); return <-done }, done
}

// The lease is held while the disk works, and gone at once after Close.
func TestRenews(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		l := w.mustTake(t)
		stop, _ := run(t, l)
		time.Sleep(10 * ttl)
		if got := w.live(t); got != 1 {
			t.Errorf("incarnation %d is registered after ten leases, want 1", got)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		if err := l.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
		if got := w.live(t); got != 0 {
			t.Errorf("incarnation %d is registered after Close", got)
		}
	})
}

// Invariant 2: after kill −9 the next life is registered at once, and the killed one cannot come back.
func TestNextLifeReplaces(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		killed := w.mustTake(t)
		next := w.mustTake(t)
		if got := w.live(t); got != 2 {
			t.Fatalf("incarnation %d is registered, want 2", got)
		}
		if err := killed.Run(t.Context()); !fault.Is(err, fault.Conflict) {
			t.Errorf("the killed life's Run gave %v, want Conflict", err)
		}
		if got := w.live(t); got != 2 {
			t.Errorf("incarnation %d is registered, want 2", got)
		}
		_ = killed.Close(t.Context())
		if err := next.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Invariant 1: a disk that hangs lets the lease run out; when it is back the broker is too.
func TestHungDiskIsNotAlive(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		l := w.mustTake(t)
		stop, _ := run(t, l)
		w.dir.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "heartbeat", Count: 1, Delay: 3 * ttl})
		time.Sleep(2 * ttl)
		if got := w.live(t); got != 0 {
			t.Errorf("incarnation %d is registered while its disk hangs", got)
		}
		time.Sleep(2 * ttl)
		if got := w.live(t); got != 1 {
			t.Errorf("incarnation %d is registered after its disk came back, want 1", got)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		_ = l.Close(t.Context())
	})
}

// A slow heartbeat does not count, even if it is done when the next is due.
func TestSlowDiskIsNotAlive(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		l := w.mustTake(t)
		stop, _ := run(t, l)
		w.dir.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "heartbeat", Delay: lease.BeatTimeout + 100*time.Millisecond})
		time.Sleep(3 * ttl)
		if got := w.live(t); got != 0 {
			t.Errorf("incarnation %d is registered while its disk is slow", got)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		_ = l.Close(t.Context())
	})
}

// Invariant 3, at every step of the heartbeat.
func TestFailedHeartbeatIsADiskError(t *testing.T) {
	for name, op := range map[string]faultfs.Op{"write": faultfs.Write, "sync": faultfs.Sync, "read": faultfs.Read} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w world) {
				l := w.mustTake(t)
				stop, ended := run(t, l)
				w.dir.Add(faultfs.Rule{Ops: op, Path: "heartbeat", Err: errors.New("input/output error")})
				time.Sleep(ttl)
				select {
				case err := <-ended:
					if !fault.Is(err, fault.DiskPoisoned) {
						t.Errorf("run gave %v, want DiskPoisoned", err)
					}
				default:
					t.Error("the lease runs on")
					_ = stop()
				}
				_ = l.Close(t.Context())
				if _, err := w.take(t); !fault.Is(err, fault.DiskPoisoned) {
					t.Errorf("take gave %v, want DiskPoisoned", err)
				}
			})
		})
	}
}

// Invariant 4: while the store is away the broker goes on, and registers when it is back.
func TestStoreAway(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		l := w.mustTake(t)
		stop, _ := run(t, l)
		w.store.SetFaults(func(memstore.Call) memstore.Fault { return memstore.Unavailable })
		time.Sleep(10 * ttl)
		w.store.SetFaults(nil)
		time.Sleep(ttl)
		if got := w.live(t); got != 1 {
			t.Errorf("incarnation %d is registered, want 1", got)
		}
		if err := stop(); err != nil {
			t.Errorf("run: %v", err)
		}
		_ = l.Close(t.Context())
	})
}

// A disk whose heartbeats are late for 5 s is slow, and is not any more with the first that is in time.
func TestSlow(t *testing.T) {
	inWorld(t, func(t *testing.T, w world) {
		l := w.mustTake(t)
		stop, _ := run(t, l)
		time.Sleep(ttl)
		w.dir.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "heartbeat", Count: 3, Delay: 2 * time.Second})
		time.Sleep(4 * time.Second)
		if l.Slow() {
			t.Error("slow although no heartbeat has been late for 5 s")
		}
		time.Sleep(3 * time.Second)
		if !l.Slow() {
			t.Error("not slow although every heartbeat has been late for 5 s")
		}
		time.Sleep(ttl)
		if l.Slow() {
			t.Error("slow although the disk answers again")
		}
		if err := errors.Join(stop(), l.Close(t.Context())); err != nil {
			t.Error(err)
		}
	})
}
