package topology_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var day = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func uuid(n byte) partition.UUID { return partition.UUID{15: n} }

// world is a store with a follower that runs.
type world struct {
	t     *testing.T
	clock *clock.Manual
	store *memstore.Store
	*topology.Follower

	log *logBuffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: clock.NewManual(day), log: &logBuffer{}}
	w.store = memstore.New(w.clock)
	w.Follower = topology.NewFollower(w.store, slog.New(slog.NewTextHandler(w.log, nil)), w.clock)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		_ = w.store.Close()
	})
	return w
}

func (w *world) put(key string, value any) int64 {
	w.t.Helper()
	data, err := topology.Encode(value)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.txn(topology.Op{Key: key, Value: data})
}

func (w *world) txn(ops ...topology.Op) int64 {
	w.t.Helper()
	result, err := w.store.Txn(w.t.Context(), nil, ops)
	if err != nil {
		w.t.Fatal(err)
	}
	return result.Revision
}

// at waits for the View of a revision.
func (w *world) at(revision int64) *topology.View {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	view, err := w.WaitFor(ctx, func(v *topology.View) bool { return v.Revision >= revision })
	if err != nil {
		w.t.Fatalf("the view stays at revision %d, want %d; log:\n%s", w.View().Revision, revision, w.log)
	}
	return view
}

// advance lets the follower's timers fire: it waits until one is set.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	if err := w.clock.AwaitPending(ctx, 1); err != nil {
		w.t.Fatal("the follower sets no timer")
	}
	w.clock.Advance(d)
}

func TestFollowerFoldsEveryKey(t *testing.T) {
	w := newWorld(t)
	topic := topology.Topic{V: 1, ID: uuid(1), Namespace: "ns", Name: "orders", Partitions: 2}
	members := []partition.Member{{Broker: 7, Replica: uuid(9)}}
	assignment := topology.First(topology.Leader{Broker: 7, Incarnation: 3, Replica: uuid(9)}, members)
	live := topology.Live{V: 1, ID: "g", Incarnation: 4, Capnp: "h:1"}
	name := topology.Name{Namespace: "ns", Topic: "orders"}
	w.put(topology.ClusterKey, topology.Cluster{V: 1, ID: uuid(5)})
	w.put(topology.CoordinatorKey, live)
	w.put(topology.NamespaceKey("ns"), topology.Namespace{V: 1})
	w.put(topology.NameKey(name), topology.TopicRef{V: 1, ID: uuid(1)})
	w.put(topology.TopicKey(uuid(1)), topic)
	w.put(topology.PartitionKey(partition.ID{Topic: uuid(1), Index: 1}), assignment)
	w.put(topology.BrokerIdentKey(7), topology.BrokerIdent{V: 1, Incarnation: 3})
	w.put(topology.BrokerLiveKey(7), live)
	w.put(topology.GatewayLiveKey("g"), live)
	w.put(topology.TiererLiveKey("t"), live)
	w.put(topology.RequestKey("r"), topology.Request{V: 1})
	v := w.at(w.put(topology.PIDKey, topology.PIDBlock{V: 1}))

	got, ok := v.Topic(name)
	if !ok || !cmp.Equal(topic, got.Value) || got.ModRevision == 0 || got.CreateRevision == 0 {
		t.Errorf("topic %+v, %v", got, ok)
	}
	if a, ok := v.Partition(partition.ID{Topic: uuid(1), Index: 1}); !ok || !cmp.Equal(assignment, a.Value) {
		t.Errorf("partition 1 %+v, %v", a, ok)
	}
	if _, ok := v.Partition(partition.ID{Topic: uuid(1), Index: 0}); ok {
		t.Error("partition 0, which is missing, was found")
	}
	broker := v.Brokers[7]
	if broker.Ident.Value.Incarnation != 3 || broker.Live == nil || broker.Live.Value.Capnp != "h:1" || broker.Live.ModRevision == 0 {
		t.Errorf("broker %+v", broker)
	}
	if v.Cluster.Value.ID != uuid(5) || v.Coordinator == nil || len(v.Namespaces) != 1 || v.Gateways["g"].ID != "g" || v.Tierers["t"].ID != "g" {
		t.Errorf("view %+v", v)
	}

	var deletes []topology.Op
	kvs, _, err := w.store.List(t.Context(), topology.Root, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range kvs {
		deletes = append(deletes, topology.Op{Key: kv.Key, Delete: true})
	}
	after := w.at(w.txn(deletes...))
	empty := topology.NewFollower(w.store, slog.Default(), w.clock).View()
	want := *empty
	want.Revision = after.Revision
	if diff := cmp.Diff(&want, after); diff != "" {
		t.Errorf("the view after everything was deleted (-want +got):\n%s", diff)
	}
	if len(v.Topics) != 1 || len(v.Partitions) != 1 || v.Brokers[7].Live == nil {
		t.Error("a view that a reader holds was changed")
	}
}

func TestFollowerKeepsWhatItCannotRead(t *testing.T) {
	w := newWorld(t)
	key := topology.TopicKey(uuid(1))
	w.at(w.put(key, topology.Topic{V: 1, ID: uuid(1), Partitions: 3}))
	for name, c := range map[string]struct{ value, log string }{
		"newer schema": {`{"v":2,"partitions":9}`, "schema version 2, this build reads 1 to 1"},
		"no JSON":      {`{"v":1,`, "unexpected end of JSON"},
		"other type":   {`{"v":1,"partitions":"many"}`, "cannot unmarshal"},
	} {
		v := w.at(w.txn(topology.Op{Key: key, Value: []byte(c.value)}))
		if v.Topics[uuid(1)].Value.Partitions != 3 {
			t.Errorf("%s: topic is now %+v", name, v.Topics[uuid(1)])
		}
		if !strings.Contains(w.log.String(), c.log) {
			t.Errorf("%s: the log does not say %q:\n%s", name, c.log, w.log)
		}
	}
	for _, bad := range []string{
		topology.PartitionsPrefix + uuid(1).String() + "/4294967295", topology.PartitionsPrefix + "x/1", topology.TopicsPrefix + "x",
		topology.BrokersPrefix + "0/live", topology.BrokersPrefix + "1/other", topology.NamesPrefix + "lonely",
	} {
		v := w.at(w.txn(topology.Op{Key: bad, Value: []byte(`{"v":1}`)}))
		if len(v.Partitions) != 0 || len(v.Brokers) != 0 || len(v.Names) != 0 {
			t.Errorf("key %s was taken in", bad)
		}
		w.at(w.txn(topology.Op{Key: bad, Delete: true}))
	}
	if v := w.at(w.put(key, topology.Topic{V: 1, ID: uuid(1), Partitions: 4})); v.Topics[uuid(1)].Value.Partitions != 4 {
		t.Error("a good value after a bad one was not taken in")
	}
}

func TestFollowerSurvivesBrokenWatch(t *testing.T) {
	for name, breakIt := range map[string]func(*world){
		"broken": func(w *world) { w.store.BreakWatches() },
		"compacted": func(w *world) {
			w.store.HoldWatches(true)
			w.store.Compact(w.put(topology.CoordinatorKey, topology.Live{V: 1}))
			w.store.HoldWatches(false)
		},
		"store away": func(w *world) {
			w.store.SetUnavailable(true)
			w.store.BreakWatches()
			w.advance(time.Second) // the first list fails
			w.store.SetUnavailable(false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.put(topology.NamespaceKey("a"), topology.Namespace{V: 1})
			w.at(w.put(topology.NamespaceKey("b"), topology.Namespace{V: 1}))
			breakIt(w)
			w.put(topology.NamespaceKey("c"), topology.Namespace{V: 1})
			revision := w.txn(topology.Op{Key: topology.NamespaceKey("a"), Delete: true})
			for w.View().Revision < revision {
				w.advance(10 * time.Second) // of the retry
			}
			if _, gone := w.View().Namespaces["a"]; gone || len(w.View().Namespaces) != 2 {
				t.Errorf("namespaces %v", w.View().Namespaces)
			}
		})
	}
}

// TestFollowerFindsWhatTheWatchLost has a store whose watches stay silent: what changed must come by the list that is made all the same.
func TestFollowerFindsWhatTheWatchLost(t *testing.T) {
	w := newWorld(t)
	w.at(w.put(topology.NamespaceKey("a"), topology.Namespace{V: 1}))
	w.store.HoldWatches(true)
	w.put(topology.NamespaceKey("b"), topology.Namespace{V: 1})
	for len(w.View().Namespaces) != 2 {
		w.advance(30 * time.Second)
	}
	w.txn(topology.Op{Key: topology.NamespaceKey("a"), Delete: true})
	for len(w.View().Namespaces) == 2 {
		w.advance(30 * time.Second)
	}
}

func TestRefreshSeesWhatWasCommitted(t *testing.T) {
	w := newWorld(t)
	w.at(1)
	w.store.HoldWatches(true)
	revision := w.put(topology.NamespaceKey("a"), topology.Namespace{V: 1})
	if err := w.Refresh(t.Context()); err != nil || w.View().Revision < revision || len(w.View().Namespaces) != 1 {
		t.Errorf("after refresh: revision %d of %d, %v", w.View().Revision, revision, err)
	}
	w.store.SetUnavailable(true)
	if err := w.Refresh(t.Context()); !errors.Is(err, topology.ErrUnavailable) {
		t.Errorf("refresh while the store is away: %v", err)
	}
}

func TestFollowerConcurrentReaders(t *testing.T) {
	w := newWorld(t)
	const puts = 200
	topic := uuid(1)
	last := w.put(topology.PartitionKey(partition.ID{Topic: topic}), topology.Assignment{V: 1, Epoch: 1})
	w.at(last)
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var seen int64
			for {
				v := w.View()
				if v.Revision < seen {
					t.Errorf("revision %d after %d", v.Revision, seen)
				}
				seen = v.Revision
				for i, a := range v.Partitions[topic] {
					if a.ModRevision > v.Revision {
						t.Errorf("partition %d of revision %d in a view of %d", i, a.ModRevision, v.Revision)
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range puts {
		id := partition.ID{Topic: topic, Index: partition.Index(i % 7)}
		last = w.put(topology.PartitionKey(id), topology.Assignment{V: 1, Epoch: partition.Epoch(i)})
	}
	w.at(last)
	close(stop)
	readers.Wait()
	if got := len(w.View().Partitions[topic]); got != 7 {
		t.Errorf("%d partitions", got)
	}
}

type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p) //nolint:wrapcheck // never fails.
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

var _ fmt.Stringer = (*logBuffer)(nil)
