package memstore_test

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/topology/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, clk clock.Clock) *memstore.Store {
	t.Helper()
	store := memstore.New(clk)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestConformance(t *testing.T) {
	clk := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	storetest.Run(t, storetest.Home{
		Open: func(t *testing.T) (topology.Store, string) {
			t.Helper()
			return open(t, clk), topology.Root
		},
		Pass: clk.Advance,
		Compact: func(t *testing.T, store topology.Store, revision int64) {
			t.Helper()
			store.(*memstore.Store).Compact(revision) //nolint:forcetypeassert // Open made it.
		},
	})
}

func TestFaults(t *testing.T) {
	store := open(t, clock.Real())
	put := func(key string) error {
		_, err := store.Txn(t.Context(), nil, []topology.Op{{Key: key, Value: []byte("x")}})
		return err
	}
	has := func(key string) bool {
		_, ok, _, err := store.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	store.SetFaults(func(c memstore.Call) memstore.Fault {
		switch c {
		case memstore.Call{Method: memstore.Txn, Key: "lost"}:
			return memstore.Ambiguous
		case memstore.Call{Method: memstore.Txn, Key: "refused"}:
			return memstore.Unavailable
		}
		return memstore.None
	})
	for key, applied := range map[string]bool{"lost": true, "refused": false} {
		err := put(key)
		if !errors.Is(err, topology.ErrUnavailable) || !fault.Is(err, fault.OutcomeUnknown) {
			t.Errorf("%s: %v", key, err)
		}
		if has(key) != applied {
			t.Errorf("%s: applied %v, want %v", key, !applied, applied)
		}
	}

	watch := store.Watch(t.Context(), "", 0)
	store.SetUnavailable(true)
	if _, _, _, err := store.Get(t.Context(), "lost"); !errors.Is(err, topology.ErrUnavailable) || !fault.Is(err, fault.Unavailable) {
		t.Errorf("get while unavailable: %v", err)
	}
	store.SetUnavailable(false)
	if err := put("later"); err != nil {
		t.Fatal(err)
	}
	if events := <-watch; len(events.Changes) != 1 || events.Changes[0].KV.Key != "later" {
		t.Errorf("the watch goes on with %+v", events)
	}
	store.BreakWatches()
	if events := <-watch; !errors.Is(events.Err, topology.ErrUnavailable) {
		t.Errorf("broken watch gives %+v", events)
	}
	if _, ok := <-watch; ok {
		t.Error("the broken watch goes on")
	}
}

func TestCloseEndsWatches(t *testing.T) {
	store := memstore.New(clock.Real())
	watch := store.Watch(t.Context(), "", 0)
	closed := make(chan error, 1)
	go func() { closed <- store.Close() }()
	for range watch { // until it is closed
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, ok := <-store.Watch(t.Context(), "", 0); ok {
		t.Error("a watch of a closed store gives an event")
	}
	if _, _, _, err := store.Get(t.Context(), "a"); !errors.Is(err, topology.ErrUnavailable) {
		t.Errorf("get of a closed store: %v", err)
	}
}
