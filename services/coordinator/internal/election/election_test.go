package election

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 4 * time.Second

// rig is a store with candidates.
type rig struct {
	t     *testing.T
	clock *clock.Manual
	store *memstore.Store
}

func newRig(t *testing.T) *rig {
	c := clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	store := memstore.New(c)
	t.Cleanup(func() { _ = store.Close() })
	return &rig{t: t, clock: c, store: store}
}

// candidate is an election that runs; won and lost get a value at each beginning and end of a term.
type candidate struct {
	*Election

	won, lost chan struct{}
	stop      context.CancelFunc
	ended     chan error
}

func (r *rig) stand(id string) *candidate {
	c := &candidate{won: make(chan struct{}, 8), lost: make(chan struct{}, 8), ended: make(chan error, 1)}
	c.Election = New(Config{
		Store: r.store, Clock: r.clock, Log: slog.New(slog.DiscardHandler), Live: topology.Live{ID: id}, TTL: ttl,
	})
	ctx, stop := context.WithCancel(r.t.Context())
	c.stop = stop
	go func() {
		c.ended <- c.Run(ctx, func(ctx context.Context) error {
			c.won <- struct{}{}
			<-ctx.Done()
			c.lost <- struct{}{}
			return ctx.Err()
		})
	}()
	r.t.Cleanup(c.kill)
	return c
}

// kill ends a candidate; it resigns.
func (c *candidate) kill() {
	c.stop()
	<-c.ended
	c.ended <- nil
}

func (r *rig) holder() topology.Live {
	kv, ok, _, err := r.store.Get(r.t.Context(), topology.CoordinatorKey)
	if err != nil || !ok {
		r.t.Fatalf("no coordinator: %v", err)
	}
	live, err := topology.Decode[topology.Live](kv.Value)
	if err != nil {
		r.t.Fatal(err)
	}
	return live
}

// advance moves time in steps short enough for renewals, each when so many timers wait: the candidate's, and that of the lease if it has one.
func (r *rig) advance(d time.Duration, timers int) {
	for ; d > 0; d -= ttl / 4 {
		if err := r.clock.AwaitPending(r.t.Context(), timers); err != nil {
			r.t.Fatal(err)
		}
		r.clock.Advance(ttl / 4)
	}
}

func TestOneLeadsAndTheNextFollows(t *testing.T) {
	r := newRig(t)
	a := r.stand("a")
	<-a.won
	b := r.stand("b")
	guard, err := a.Guard()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Guard(); !errors.Is(err, ErrStandby) {
		t.Errorf("the standby's guard: %v", err)
	}
	a.kill()
	<-b.won
	next, err := b.Guard()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Guard(); !errors.Is(err, ErrStandby) {
		t.Errorf("the resigned one's guard: %v", err)
	}
	if guard.Want >= next.Want {
		t.Errorf("terms %d and %d do not grow", guard.Want, next.Want)
	}
}

// A restarted coordinator does not wait for the lease of its earlier life, and its term is another.
func TestRestartReplacesOwnKeyAtOnce(t *testing.T) {
	r := newRig(t)
	lease, err := r.store.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	value, err := topology.Encode(topology.Live{V: 1, ID: "a", Incarnation: 1, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	old, err := r.store.Txn(t.Context(), nil, []topology.Op{{Key: topology.CoordinatorKey, Value: value, Lease: lease}})
	if err != nil {
		t.Fatal(err)
	}
	a := r.stand("a")
	<-a.won // no clock has moved
	guard, err := a.Guard()
	if err != nil || guard.Want <= old.Revision {
		t.Errorf("guard %+v %v: the earlier life's would still hold", guard, err)
	}
	if err := r.store.KeepAliveOnce(t.Context(), lease); !errors.Is(err, topology.ErrLeaseNotFound) {
		t.Errorf("the old lease lives: %v", err)
	}
	if got := r.holder(); got.Incarnation <= 1 {
		t.Errorf("incarnation %d", got.Incarnation)
	}
}

// Another process with the same id and a higher incarnation is not displaced: two processes would replace each other for ever.
func TestLaterLifeIsLeftAlone(t *testing.T) {
	r := newRig(t)
	value, err := topology.Encode(topology.Live{V: 1, ID: "a", Incarnation: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Txn(t.Context(), nil, []topology.Op{{Key: topology.CoordinatorKey, Value: value}}); err != nil {
		t.Fatal(err)
	}
	a := r.stand("a")
	r.advance(2*ttl, 1)
	if got := r.holder(); got.Incarnation != 1<<40 {
		t.Errorf("incarnation %d displaced it", got.Incarnation)
	}
	if _, err := a.Guard(); err == nil {
		t.Error("and is active")
	}
}

func TestRenewalsKeepTheTerm(t *testing.T) {
	r := newRig(t)
	a := r.stand("a")
	<-a.won
	before, _ := a.Guard()
	r.advance(5*ttl, 2)
	if after, err := a.Guard(); err != nil || after != before {
		t.Errorf("guard %+v %v, was %+v", after, err, before)
	}
}

// A holder that slept through its lease refuses to act before anything has told it.
func TestPausedHolderRefuses(t *testing.T) {
	r := newRig(t)
	a := r.stand("a")
	<-a.won
	r.store.SetUnavailable(true)
	r.clock.Advance(ttl)
	if _, err := a.Guard(); !errors.Is(err, ErrStandby) {
		t.Errorf("guard after the lease: %v", err)
	}
	<-a.lost
	r.store.SetUnavailable(false)
	r.advance(ttl, 1)
	<-a.won
}

// A failed guard makes the holder look, and stop within the same moment.
func TestDoubtEndsADisplacedTerm(t *testing.T) {
	r := newRig(t)
	a := r.stand("a")
	<-a.won
	a.Doubt() // groundless
	if _, err := r.store.Txn(t.Context(), nil, []topology.Op{{Key: topology.CoordinatorKey, Delete: true}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Txn(t.Context(), nil, []topology.Op{{Key: topology.CoordinatorKey, Value: []byte(`{"v":1,"id":"b"}`)}}); err != nil {
		t.Fatal(err)
	}
	a.Doubt()
	<-a.lost
	if got := r.holder(); got.ID != "b" {
		t.Errorf("the key went to %q", got.ID)
	}
}

func TestUnansweredCreateIsCleared(t *testing.T) {
	r := newRig(t)
	struck := false
	r.store.SetFaults(func(c memstore.Call) memstore.Fault {
		if c.Method != memstore.Txn || struck {
			return memstore.None
		}
		struck = true
		return memstore.Ambiguous
	})
	a := r.stand("a")
	r.advance(ttl, 2) // the lease and the wait before the next look
	<-a.won
	if _, err := a.Guard(); err != nil {
		t.Error(err)
	}
}

func TestErrorOfTheLeaderEndsTheElection(t *testing.T) {
	r := newRig(t)
	broken := errors.New("broken")
	e := New(Config{Store: r.store, Clock: r.clock, Log: slog.New(slog.DiscardHandler), Live: topology.Live{ID: "a"}, TTL: ttl})
	if err := e.Run(t.Context(), func(context.Context) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, ok, _, _ := r.store.Get(t.Context(), topology.CoordinatorKey); ok {
		t.Error("the key stays behind")
	}
}
