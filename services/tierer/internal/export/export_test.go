package export_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/objstore/flakybucket"
	"github.com/seedqueue/sq/libs/objstore/membucket"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/services/tierer/internal/export"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cluster = partition.UUIDOf(1, 1)

func idOf(i int) partition.ID {
	return partition.ID{Topic: partition.UUIDOf(2, 2), Index: partition.Index(i)}
}

// world stands for the ledger and the leaders.
type world struct {
	mu     sync.Mutex
	tables map[partition.ID]*manifest.Table
	told   map[partition.ID]leader.Exported
	inside *membucket.Bucket
	bucket *flakybucket.Bucket
	store  *memstore.Store
	*export.Exporter
}

func (w *world) Refresh(_ context.Context, id partition.ID) (*manifest.Table, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tables[id] == nil {
		return nil, fault.Errorf(fault.NotLeader, "nobody leads it")
	}
	return w.tables[id], nil
}

func (w *world) Exported(_ context.Context, id partition.ID, e leader.Exported) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.told[id] = e
	return nil
}

func newWorld(t *testing.T, limits export.Limits) *world {
	t.Helper()
	w := &world{
		tables: map[partition.ID]*manifest.Table{}, told: map[partition.ID]leader.Exported{},
		inside: membucket.New(clock.Real()), store: memstore.New(clock.Real()),
	}
	w.bucket = flakybucket.New(w.inside)
	metrics, err := export.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	w.Exporter = export.New(export.Config{
		Ledger: w, Leader: w, Bucket: w.bucket, Store: w.store, Cluster: func() partition.UUID { return cluster }, Name: "tierer",
		Clock: clock.Real(), Limits: limits, Metrics: metrics, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		_ = w.store.Close()
	})
	return w
}

func limits() export.Limits {
	return export.Limits{Linger: 20 * time.Millisecond, Tables: 100, Segments: 100, Asks: 4, Timeout: 10 * time.Second}
}

// table sets a partition's table, of so many segments.
func (w *world) table(i, segments int) {
	table := &manifest.Table{Partition: idOf(i), Epoch: 1, Version: uint64(segments)}
	for range segments {
		s := manifest.Segment{Base: table.TierEnd, End: table.TierEnd + 10, Size: 100, ObjectSize: 200}
		table.TierEnd = s.End
		table.Segments = append(table.Segments, s)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tables[idOf(i)] = table
}

func (w *world) occupy(t *testing.T, sequences ...uint64) {
	t.Helper()
	for _, sequence := range sequences {
		if _, err := w.inside.Put(t.Context(), manifest.Key(cluster, sequence), bytes.NewReader(nil), 0, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *world) export(t *testing.T, i int) uint64 {
	t.Helper()
	if err := w.Export(t.Context(), idOf(i)); err != nil {
		t.Fatalf("export %d: %v", i, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[idOf(i)].Sequence
}

func TestTablesShareManifests(t *testing.T) {
	w := newWorld(t, limits())
	var tasks sync.WaitGroup
	for i := range 10 {
		w.table(i, 30) // three fit
		tasks.Go(func() { w.export(t, i) })
	}
	tasks.Wait()
	written := w.TakeWritten()
	exported := map[partition.ID]uint64{}
	for _, each := range written {
		if len(each.Partitions) > 3 {
			t.Errorf("manifest %d has %d tables", each.Sequence, len(each.Partitions))
		}
		for _, id := range each.Partitions {
			exported[id] = each.Sequence
		}
	}
	if len(written) > 9 || len(exported) != 10 {
		t.Errorf("%d tables in %d manifests", len(exported), len(written))
	}
	for id, sequence := range exported {
		if w.told[id].Sequence != sequence {
			t.Errorf("%v: its leader was told of manifest %d, it is in %d", id, w.told[id].Sequence, sequence)
		}
	}
}

func TestOneThatFailsDoesNotKeepOthers(t *testing.T) {
	w := newWorld(t, limits())
	w.table(1, 1)
	var tasks sync.WaitGroup
	tasks.Go(func() { w.export(t, 1) })
	if err := w.Export(t.Context(), idOf(2)); !fault.Is(err, fault.NotLeader) {
		t.Errorf("export of what nobody leads: %v", err)
	}
	tasks.Wait()
}

func TestSequencesGoOnAndStepAside(t *testing.T) {
	w := newWorld(t, limits())
	w.table(1, 1)
	w.occupy(t, 1, 2, 3, 4, 5, 6, 7)
	if got := w.export(t, 1); got != 8 {
		t.Errorf("first sequence %d", got)
	}
	w.occupy(t, 9, 10, 11) // another tierer's
	if got := w.export(t, 1); got != 12 {
		t.Errorf("sequence %d behind another's", got)
	}
}

// TestFloor has a sequence that looks free have been deleted: a manifest under it must not count.
func TestFloor(t *testing.T) {
	w := newWorld(t, limits())
	w.table(1, 1)
	data, err := topology.Encode(topology.TierFloor{V: 1, ManifestSequence: 20})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Txn(t.Context(), nil, []topology.Op{{Key: topology.TierKey(idOf(1)), Value: data}}); err != nil {
		t.Fatal(err)
	}
	if got := w.export(t, 1); got != 20 {
		t.Errorf("sequence %d, the floor is 20", got)
	}
}

// TestStoreFailsMeanwhile has PUTs fail, be lost after and before they are done, and etcd not answer.
func TestStoreFailsMeanwhile(t *testing.T) {
	w := newWorld(t, limits())
	w.table(1, 1)
	w.bucket.Set(
		flakybucket.Rule{Op: flakybucket.Put, Times: 1, Effect: flakybucket.Fail},
		flakybucket.Rule{Op: flakybucket.Put, Times: 1, Effect: flakybucket.Ambiguous},
		flakybucket.Rule{Op: flakybucket.Get, Times: 1, Effect: flakybucket.Fail},
	)
	failed := false
	w.store.SetFaults(func(c memstore.Call) memstore.Fault {
		if c.Method == memstore.Get && !failed {
			failed = true
			return memstore.Unavailable
		}
		return memstore.None
	})
	if got := w.export(t, 1); got != 2 { // what was written before the floor was unknown is left behind
		t.Errorf("sequence %d", got)
	}
	w.bucket.Set(flakybucket.Rule{Op: flakybucket.Put, Effect: flakybucket.Fail, Err: objstore.ErrDenied})
	if err := w.Export(t.Context(), idOf(1)); !errors.Is(err, objstore.ErrDenied) {
		t.Errorf("denied: %v", err)
	}
}

func TestLastSequence(t *testing.T) {
	for _, taken := range [][]uint64{
		nil, {1}, {1, 2}, {1, 2, 3}, {5, 6, 7, 8}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, {7, 900, 901}, {1, 1 << 40},
	} {
		for _, known := range []uint64{0, 1, 6} {
			w := &world{inside: membucket.New(clock.Real())}
			w.occupy(t, taken...)
			bucket := flakybucket.New(w.inside)
			got, err := export.LastSequence(t.Context(), bucket, cluster, known)
			if want := slices.Max(append(slices.Clone(taken), known)); err != nil || got != want {
				t.Errorf("of %v, %d known: %d, %v", taken, known, got, err)
			}
			if calls := bucket.Calls(flakybucket.List); calls > 100 {
				t.Errorf("%d lists for %v", calls, taken)
			}
		}
	}
}
