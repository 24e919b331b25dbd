package retention_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/flakybucket"
	"github.com/seedqueue/sq/libs/objstore/membucket"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/services/tierer/internal/export"
	"github.com/seedqueue/sq/services/tierer/internal/retention"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	cluster = partition.UUIDOf(1, 1)
	a       = partition.ID{Topic: partition.UUIDOf(2, 2), Index: 0}
	b       = partition.ID{Topic: partition.UUIDOf(2, 2), Index: 1}
)

// world has a pruner that runs, and what was written.
type world struct {
	t      *testing.T
	clock  *clock.Manual
	inside *membucket.Bucket
	bucket *flakybucket.Bucket
	store  *memstore.Store
	mu     sync.Mutex
	news   []export.Written
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	w.inside = membucket.New(w.clock)
	w.bucket = flakybucket.New(w.inside)
	w.store = memstore.New(w.clock)
	metrics, err := retention.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	p := &retention.Pruner{
		Written: w.written, Bucket: w.bucket, Store: w.store, Cluster: func() partition.UUID { return cluster }, Clock: w.clock,
		Every: time.Minute, Metrics: metrics, Log: slog.New(slog.DiscardHandler),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = w.store.Close()
	})
	return w
}

func (w *world) written() []export.Written {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := w.news
	w.news = nil
	return news
}

// write puts a manifest into the bucket.
func (w *world) write(sequence uint64, ids ...partition.ID) {
	w.t.Helper()
	if _, err := w.inside.Put(w.t.Context(), manifest.Key(cluster, sequence), bytes.NewReader(nil), 0, objstore.PutOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.news = append(w.news, export.Written{Sequence: sequence, Partitions: ids})
}

// pass lets the pruner look once, and waits until it has.
func (w *world) pass() {
	w.t.Helper()
	if err := w.clock.AwaitPending(w.t.Context(), 1); err != nil {
		w.t.Fatal(err)
	}
	w.clock.Advance(time.Minute)
	if err := w.clock.AwaitPending(w.t.Context(), 1); err != nil { // its next timer
		w.t.Fatal(err)
	}
}

func (w *world) want(what string, sequences ...uint64) {
	w.t.Helper()
	infos, err := w.inside.List(w.t.Context(), manifest.Prefix(cluster), "", 100)
	if err != nil {
		w.t.Fatal(err)
	}
	var got []uint64
	for _, info := range infos {
		sequence, _ := manifest.ParseKey(cluster, info.Key)
		got = append(got, sequence)
	}
	if diff := cmp.Diff(sequences, got); diff != "" {
		w.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func (w *world) floor(id partition.ID) uint64 {
	w.t.Helper()
	kv, ok, _, err := w.store.Get(w.t.Context(), topology.TierKey(id))
	if err != nil {
		w.t.Fatal(err)
	}
	if !ok {
		return 0
	}
	floor, err := topology.Decode[topology.TierFloor](kv.Value)
	if err != nil {
		w.t.Fatal(err)
	}
	return floor.ManifestSequence
}

func TestPrune(t *testing.T) {
	w := newWorld(t)
	w.write(1, a, b)
	w.write(3, a)
	w.pass()
	w.pass()
	w.want("the first is still the newest of b", 1, 3)
	w.write(4, b)
	w.pass()
	w.want("found replaced, not yet deleted", 1, 3, 4)
	if w.floor(a) != 0 {
		t.Errorf("floor %d before anything is deleted", w.floor(a))
	}
	w.pass()
	w.want("deleted", 3, 4)
	if w.floor(a) != 2 || w.floor(b) != 2 {
		t.Errorf("floors %d and %d", w.floor(a), w.floor(b))
	}
	w.write(7, a, b)
	w.pass()
	w.pass()
	w.want("only the newest is left", 7)
	if w.floor(a) != 4 || w.floor(b) != 5 {
		t.Errorf("floors %d and %d", w.floor(a), w.floor(b))
	}
}

// TestNothingIsDeletedWithoutItsFloor has etcd be away.
func TestNothingIsDeletedWithoutItsFloor(t *testing.T) {
	w := newWorld(t)
	w.write(1, a)
	w.write(2, a)
	w.pass()
	w.store.SetUnavailable(true)
	w.pass()
	w.want("etcd is away", 1, 2)
	w.store.SetUnavailable(false)
	w.bucket.Set(flakybucket.Rule{Op: flakybucket.Delete, Times: 1, Effect: flakybucket.Fail})
	w.pass()
	w.want("the bucket is away", 1, 2)
	w.pass()
	w.want("all are there", 2)
	if w.floor(a) != 2 {
		t.Errorf("floor %d", w.floor(a))
	}
}
