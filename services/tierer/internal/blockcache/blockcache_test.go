package blockcache_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/services/tierer/internal/blockcache"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBroken = errors.New("broken")

// source counts loads and can be made to wait or fail.
type source struct {
	mu     sync.Mutex
	loaded []int
	gate   chan struct{} // nil = loads do not wait
	fail   map[int]int   // how often a key still fails
}

func (s *source) load(ctx context.Context, key int) ([]byte, error) {
	s.mu.Lock()
	s.loaded = append(s.loaded, key)
	gate, fails := s.gate, s.fail[key] > 0
	if fails {
		s.fail[key]--
	}
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fails {
		return nil, errBroken
	}
	return make([]byte, 10), nil
}

func newCache(t *testing.T, s *source) *blockcache.Cache[int, []byte] {
	t.Helper()
	c := blockcache.New(blockcache.Config[int, []byte]{
		Bytes: 30, Loads: 4, Load: s.load, Weigh: func(v []byte) int64 { return int64(len(v)) }, Timeout: time.Minute,
	})
	t.Cleanup(c.Close)
	return c
}

func get(t *testing.T, c *blockcache.Cache[int, []byte], keys ...int) {
	t.Helper()
	for _, key := range keys {
		if v, err := c.Get(t.Context(), key); err != nil || len(v) != 10 {
			t.Fatalf("get %d: %d bytes, %v", key, len(v), err)
		}
	}
}

func TestKeepsTheRecentlyUsed(t *testing.T) {
	s := &source{}
	c := newCache(t, s)
	get(t, c, 1, 2, 3, 1, 4) // 2 has to go
	get(t, c, 1, 3, 4)
	if diff := cmp.Diff([]int{1, 2, 3, 4}, s.loaded); diff != "" {
		t.Errorf("loads (-want +got):\n%s", diff)
	}
	get(t, c, 2)
	if s.loaded[len(s.loaded)-1] != 2 {
		t.Error("what had to go is still there")
	}
	want := blockcache.Stats{Hits: 4, Misses: 5, Loads: 5, Bytes: 30, Entries: 3}
	if diff := cmp.Diff(want, c.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestOneLoadServesAll(t *testing.T) {
	s := &source{gate: make(chan struct{})}
	c := newCache(t, s)
	impatient, giveUp := context.WithCancel(t.Context())
	gaveUp := make(chan error, 1)
	go func() {
		_, err := c.Get(impatient, 1)
		gaveUp <- err
	}()
	var patient sync.WaitGroup
	for range 8 {
		patient.Go(func() { get(t, c, 1) })
	}
	for c.Stats().Misses < 9 { // all have asked
		runtime.Gosched()
	}
	giveUp()
	if err := <-gaveUp; !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up got %v", err)
	}
	close(s.gate)
	patient.Wait()
	if len(s.loaded) != 1 {
		t.Errorf("%d loads", len(s.loaded))
	}
}

func TestErrorsAreNotKept(t *testing.T) {
	s := &source{fail: map[int]int{1: 1}}
	c := newCache(t, s)
	if _, err := c.Get(t.Context(), 1); !errors.Is(err, errBroken) {
		t.Fatalf("error %v", err)
	}
	get(t, c, 1)
	c.Drop(1)
	get(t, c, 1)
	if len(s.loaded) != 3 {
		t.Errorf("%d loads", len(s.loaded))
	}
}

func TestPrefetch(t *testing.T) {
	s := &source{gate: make(chan struct{})}
	c := newCache(t, s)
	for key := range 10 {
		c.Prefetch(key)
	}
	close(s.gate)
	get(t, c, 0)
	if n := c.Stats().Loads; n > 10 || n < 1 {
		t.Errorf("%d loads", n)
	}
}

func TestCloseEndsLoads(t *testing.T) {
	s := &source{gate: make(chan struct{})}
	c := newCache(t, s)
	got := make(chan error, 1)
	go func() {
		_, err := c.Get(context.Background(), 1)
		got <- err
	}()
	for c.Stats().Loads == 0 {
		runtime.Gosched()
	}
	c.Close()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Errorf("the load ended with %v", err)
	}
	if _, err := c.Get(t.Context(), 2); !errors.Is(err, blockcache.ErrClosed) {
		t.Errorf("get after close: %v", err)
	}
}
