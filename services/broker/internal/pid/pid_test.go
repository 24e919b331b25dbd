package pid_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/services/broker/internal/pid"
)

// Invariants 1 and 2: many callers of many sources, lives included, and nobody gets an id twice.
func TestIDsAreUnique(t *testing.T) {
	store := memstore.New(clock.Real())
	defer store.Close()
	var (
		mu    sync.Mutex
		seen  = map[uint64]bool{}
		calls sync.WaitGroup
	)
	for range 3 {
		source := pid.New(store)
		for range 4 {
			calls.Go(func() {
				for range 50 {
					id, err := source.Next(t.Context())
					mu.Lock()
					if err != nil || id == 0 || seen[id] {
						t.Errorf("id %d, %v, seen %v", id, err, seen[id])
					}
					seen[id] = true
					mu.Unlock()
				}
			})
		}
	}
	calls.Wait()
	if len(seen) != 600 {
		t.Errorf("%d ids", len(seen))
	}
	kv, _, _, err := store.Get(t.Context(), topology.PIDKey)
	if err != nil {
		t.Fatal(err)
	}
	block, err := topology.Decode[topology.PIDBlock](kv.Value)
	if err != nil || block.Next != 1+3*pid.BlockSize {
		t.Errorf("store has %+v, %v; want three blocks taken", block, err)
	}
}

// A waiting caller leaves with its context.
func TestNextEndsWithItsContext(t *testing.T) {
	store := memstore.New(clock.NewManual(time.Unix(0, 0)))
	defer store.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := pid.New(store).Next(ctx); !fault.Is(err, fault.Canceled) {
		t.Errorf("got %v", err)
	}
}
