package catalog_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// office never loses.
type office struct{ compare topology.Compare }

func (o office) Guard() (topology.Compare, error) { return o.compare, nil }
func (office) Doubt()                             {}

// views reads anew instead of waiting.
type views struct{ *topology.Follower }

func (v views) WaitFor(ctx context.Context, _ func(*topology.View) bool) (*topology.View, error) {
	err := v.Refresh(ctx)
	return v.View(), err
}

type rig struct {
	*catalog.Catalog

	t     *testing.T
	store *memstore.Store
	views views
	// race is called before each transaction that writes a name.
	race func()
}

// racing is the store as the catalog sees it.
type racing struct {
	*memstore.Store

	rig *rig
}

func (s racing) Txn(ctx context.Context, compares []topology.Compare, ops []topology.Op) (topology.TxnResult, error) {
	for _, op := range ops {
		if race := s.rig.race; race != nil && strings.HasPrefix(op.Key, topology.NamesPrefix) {
			race()
		}
	}
	return s.Store.Txn(ctx, compares, ops)
}

func newRig(t *testing.T) *rig {
	c := clock.NewManual(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	store := memstore.New(c)
	t.Cleanup(func() { _ = store.Close() })
	log := slog.New(slog.DiscardHandler)
	v := views{topology.NewFollower(store, log, c)}
	ids := uint64(0)
	r := &rig{t: t, store: store, views: v}
	r.Catalog = catalog.New(catalog.Config{
		Store: racing{store, r}, Views: v, Clock: c, Log: log, Reports: reports.NewBook(), ReplicasDefault: 3,
		Office: office{topology.Compare{Key: topology.CoordinatorKey, Target: topology.CompareCreateRevision}},
		NewUUID: func() partition.UUID {
			ids++
			return partition.UUIDOf(1, ids)
		},
	})
	if err := r.EnsureDefault(t.Context()); err != nil {
		t.Fatal(err)
	}
	claim, err := topology.ClaimBroker(t.Context(), store, 1, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := topology.Register(t.Context(), store, topology.RegisterParams{
		Key: topology.BrokerLiveKey(1), Live: topology.Live{ID: "1", Node: 1, Incarnation: claim.Incarnation}, TTL: time.Hour,
	}); err != nil {
		t.Fatal(err)
	}
	if err := v.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return r
}

func name(topic string) topology.Name {
	return topology.Name{Namespace: topology.DefaultNamespace, Topic: topic}
}

func (r *rig) create(topic topology.Topic) topology.Versioned[topology.Topic] {
	r.t.Helper()
	made, err := r.CreateTopic(r.t.Context(), catalog.CreateTopic{Topic: topic})
	if err != nil {
		r.t.Fatal(err)
	}
	return made
}

// Every refusal is Invalid and names its field and what is legal.
func TestIllegalSettings(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		topic topology.Topic
		want  []string
	}{
		{topology.Topic{Name: ""}, []string{"topic is empty", "1 to 200"}},
		{topology.Topic{Name: strings.Repeat("x", 201)}, []string{"topic is 201 bytes", "1 to 200"}},
		{topology.Topic{Name: ".."}, []string{`topic ".."`, "dot"}},
		{topology.Topic{Name: "a b"}, []string{`topic "a b"`, "byte 1"}},
		{topology.Topic{Name: "ü"}, []string{"topic", "byte 0"}},
		{topology.Topic{Name: "_sq.x"}, []string{`topic "_sq.x"`, "_sq."}},
		{topology.Topic{Name: "x", Namespace: "a/b"}, []string{`namespace "a/b"`}},
		{topology.Topic{Name: "x", Partitions: 10001}, []string{"partitions: 10001", "1 to 10000"}},
		{topology.Topic{Name: "x", ReplicationFactor: 7}, []string{"replicationFactor: 7", "1, 3 or 5"}},
		{topology.Topic{Name: "x", ReplicationFactor: 4}, []string{"replicationFactor: 4", "1, 3 or 5"}},
		{topology.Topic{Name: "x", ReplicationFactor: 3}, []string{"replicationFactor: 3", "1 live"}},
		{topology.Topic{Name: "x", SegmentBytes: 65535}, []string{"segment.bytes: 65535", "65536 to 1073741824"}},
		{topology.Topic{Name: "x", SegmentBytes: 1<<30 + 1}, []string{"segment.bytes", "65536 to 1073741824"}},
		{topology.Topic{Name: "x", BatchBytesMax: 1023}, []string{"batchBytesMax: 1023", "1024 to 8388608"}},
		{topology.Topic{Name: "x", BatchBytesMax: 8<<20 + 1}, []string{"batchBytesMax", "1024 to 8388608"}},
		{topology.Topic{Name: "x", RetentionBytes: -1}, []string{"retention.bytes: -1"}},
		{topology.Topic{Name: "x", LocalBytes: -1}, []string{"localRetention.bytes: -1"}},
		{topology.Topic{Name: "x", RetentionTime: 1}, []string{"retention.time: 1ns", "1s"}},
		{topology.Topic{Name: "x", LocalTime: -1}, []string{"localRetention.time"}},
		{topology.Topic{Name: "x", SegmentAge: topology.Duration(time.Millisecond)}, []string{"segment.age: 1ms", "1s"}},
		{topology.Topic{Name: "x", TierMaxLag: topology.Duration(1<<63 - 1)}, []string{"tier.maxLag", "100 years"}},
		{topology.Topic{Name: "x", Durability: "some"}, []string{`durability: "some"`, "quorum or relaxed"}},
	} {
		_, err := r.CreateTopic(t.Context(), catalog.CreateTopic{Topic: c.topic})
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", c.topic, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q does not say %q", err, want)
			}
		}
	}
	if v := r.views.View(); len(v.Topics)+len(v.Partitions) != 0 {
		t.Errorf("%d topics and assignments of %d were written", len(v.Topics), len(v.Partitions))
	}
}

func TestLegalBounds(t *testing.T) {
	r := newRig(t)
	made := r.create(topology.Topic{
		Name: strings.Repeat("x", 200), Partitions: 101, SegmentBytes: 64 << 10, BatchBytesMax: 8 << 20, Durability: topology.DurabilityRelaxed,
	})
	v := r.views.View()
	if got := len(v.Partitions[made.Value.ID]); got != 101 {
		t.Errorf("%d assignments", got)
	}
	if got, ok := v.Topic(made.Value.FullName()); !ok || got.Value != made.Value || got.ModRevision != made.ModRevision {
		t.Errorf("the view has %+v, the answer %+v", got, made)
	}
	plain := r.create(topology.Topic{Name: "plain"}).Value
	if plain.Partitions != 1 || plain.ReplicationFactor != 1 || plain.SegmentBytes != 128<<20 || plain.BatchBytesMax != 1<<20 ||
		plain.SegmentAge != topology.Duration(time.Hour) || plain.Durability != topology.DurabilityQuorum || plain.MapVersion != 1 {
		t.Errorf("defaults: %+v", plain)
	}
}

func TestAlter(t *testing.T) {
	r := newRig(t)
	made := r.create(topology.Topic{Name: "orders", SegmentBytes: 1 << 20})
	alter := func(a catalog.AlterTopic) (topology.Versioned[topology.Topic], error) {
		a.Name = name("orders")
		return r.AlterTopic(t.Context(), a)
	}
	retain := func(to *topology.Topic) error { to.RetentionBytes = 5; return nil }
	dry, err := alter(catalog.AlterTopic{Change: retain, ValidateOnly: true})
	if err != nil || dry.Value.RetentionBytes != 5 || dry.ModRevision != made.ModRevision {
		t.Errorf("validate only: %+v %v", dry, err)
	}
	altered, err := alter(catalog.AlterTopic{Change: retain, ModRevision: made.ModRevision})
	if err != nil || altered.Value.RetentionBytes != 5 || altered.ModRevision <= made.ModRevision {
		t.Fatalf("alter: %+v %v", altered, err)
	}
	if _, err := alter(catalog.AlterTopic{Change: retain, ModRevision: made.ModRevision}); !fault.Is(err, fault.Conflict) {
		t.Errorf("an old etag: %v", err)
	}
	same, err := alter(catalog.AlterTopic{Change: retain})
	if err != nil || same.ModRevision != altered.ModRevision {
		t.Errorf("no change wrote: %+v %v", same, err)
	}
	for _, c := range []struct {
		change func(*topology.Topic) error
		want   string
	}{
		{func(to *topology.Topic) error { to.Partitions = 2; return nil }, "partitions: 1 cannot be changed"},
		{func(to *topology.Topic) error { to.ReplicationFactor = 3; return nil }, "more than the 1 live brokers"},
		{func(to *topology.Topic) error { to.ReplicationFactor = 2; return nil }, "replicationFactor: 2 is not legal"},
		{func(to *topology.Topic) error { to.SegmentBytes = 1; return nil }, "segment.bytes"},
	} {
		if _, err := alter(catalog.AlterTopic{Change: c.change}); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("want %q: %v", c.want, err)
		}
	}
	back, err := alter(catalog.AlterTopic{Change: func(to *topology.Topic) error { to.SegmentBytes = 0; return nil }})
	if err != nil || back.Value.SegmentBytes != 128<<20 {
		t.Errorf("back to the default: %+v %v", back.Value, err)
	}
	if _, err := r.AlterTopic(t.Context(), catalog.AlterTopic{Name: name("none"), Change: retain}); !fault.Is(err, fault.NotFound) {
		t.Errorf("no such topic: %v", err)
	}
}

// A change made between the read and the write of another is not lost.
func TestAlterRunsALostRaceAgain(t *testing.T) {
	r := newRig(t)
	r.create(topology.Topic{Name: "orders"})
	raced := false
	got, err := r.AlterTopic(t.Context(), catalog.AlterTopic{Name: name("orders"), Change: func(to *topology.Topic) error {
		if !raced {
			raced = true
			if _, err := r.AlterTopic(t.Context(), catalog.AlterTopic{Name: name("orders"), Change: func(to *topology.Topic) error {
				to.RetentionBytes = 7
				return nil
			}}); err != nil {
				return err
			}
		}
		to.LocalBytes = 8
		return nil
	}})
	if err != nil || got.Value.RetentionBytes != 7 || got.Value.LocalBytes != 8 {
		t.Errorf("%+v %v", got.Value, err)
	}
}

// A name taken between the look and the write is found by the write.
func TestNameIsTakenMeanwhile(t *testing.T) {
	r := newRig(t)
	r.race = func() {
		if !r.Creating(partition.UUIDOf(1, 1)) {
			t.Error("nobody is told that the topic is about to get its settings")
		}
		value := []byte(`{"v":1,"id":"00000000-0000-0000-0000-000000000009"}`)
		if _, err := r.store.Txn(t.Context(), nil, []topology.Op{{Key: topology.NameKey(name("orders")), Value: value}}); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.CreateTopic(t.Context(), catalog.CreateTopic{Topic: topology.Topic{Name: "orders"}}); !fault.Is(err, fault.Exists) {
		t.Errorf("got %v", err)
	}
	if r.Creating(partition.UUIDOf(1, 1)) {
		t.Error("its leftovers are never collected")
	}
	if err := r.views.Refresh(t.Context()); err != nil || len(r.views.View().Topics) != 0 {
		t.Errorf("%d topics, %v", len(r.views.View().Topics), err)
	}
}

// A topic whose first assignments were collected meanwhile does not appear without them.
func TestNeverVisibleInPart(t *testing.T) {
	r := newRig(t)
	r.race = func() {
		key := topology.PartitionKey(partition.ID{Topic: partition.UUIDOf(1, 1)})
		if _, err := r.store.Txn(t.Context(), nil, []topology.Op{{Key: key, Delete: true}}); err != nil {
			t.Error(err)
		}
	}
	if _, err := r.CreateTopic(t.Context(), catalog.CreateTopic{Topic: topology.Topic{Name: "orders"}}); !fault.Is(err, fault.Unavailable) {
		t.Errorf("got %v", err)
	}
	if err := r.views.Refresh(t.Context()); err != nil || len(r.views.View().Topics) != 0 {
		t.Errorf("%d topics, %v", len(r.views.View().Topics), err)
	}
}

func TestAmbiguousWritesAreResolved(t *testing.T) {
	r := newRig(t)
	r.create(topology.Topic{Name: "orders"})
	once := func(how memstore.Fault) {
		struck := false
		r.store.SetFaults(func(c memstore.Call) memstore.Fault {
			if c.Method != memstore.Txn || struck {
				return memstore.None
			}
			struck = true
			return how
		})
	}
	for _, how := range []memstore.Fault{memstore.Ambiguous, memstore.Unavailable} {
		once(how)
		got, err := r.AlterTopic(t.Context(), catalog.AlterTopic{Name: name("orders"), Change: func(to *topology.Topic) error {
			to.RetentionBytes = int64(how)
			return nil
		}})
		if err != nil || got.Value.RetentionBytes != int64(how) {
			t.Errorf("alter, fault %d: %+v %v", how, got.Value, err)
		}
	}
	once(memstore.Ambiguous)
	if err := r.DeleteTopic(t.Context(), name("orders"), partition.UUID{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, _, err := r.Topic(t.Context(), name("orders")); err == nil {
		_ = r.views.Refresh(t.Context())
	}
	if _, _, err := r.Topic(t.Context(), name("orders")); !fault.Is(err, fault.NotFound) {
		t.Errorf("after delete: %v", err)
	}
}

func TestDeleteChecksTheID(t *testing.T) {
	r := newRig(t)
	made := r.create(topology.Topic{Name: "orders"})
	if err := r.DeleteTopic(t.Context(), name("orders"), partition.UUIDOf(9, 9)); !fault.Is(err, fault.Conflict) {
		t.Errorf("another id: %v", err)
	}
	if err := r.DeleteTopic(t.Context(), name("orders"), made.Value.ID); err != nil {
		t.Error(err)
	}
}

func TestListsInPages(t *testing.T) {
	r := newRig(t)
	for i := range 5 {
		r.create(topology.Topic{Name: fmt.Sprintf("t%d", i)})
	}
	var got []string
	after := ""
	for {
		topics, more, err := r.Topics(t.Context(), topology.DefaultNamespace, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range topics {
			got = append(got, topic.Value.Name)
		}
		if !more {
			break
		}
		after = got[len(got)-1]
	}
	if strings.Join(got, " ") != "t0 t1 t2 t3 t4" {
		t.Errorf("got %v", got)
	}
	if _, _, err := r.Topics(t.Context(), "none", "", 2); !fault.Is(err, fault.NotFound) {
		t.Errorf("no such namespace: %v", err)
	}
}

func TestNamespaces(t *testing.T) {
	r := newRig(t)
	ctx := t.Context()
	if _, err := r.CreateNamespace(ctx, "team.a", "id1"); err != nil {
		t.Fatal(err)
	}
	if _, err := r.CreateNamespace(ctx, "team.a", "id1"); err != nil {
		t.Errorf("the same request: %v", err)
	}
	if _, err := r.CreateNamespace(ctx, "team.b", "id1"); !fault.Is(err, fault.Conflict) {
		t.Errorf("another under the same id: %v", err)
	}
	if _, err := r.CreateNamespace(ctx, "team.a", ""); !fault.Is(err, fault.Exists) {
		t.Errorf("twice: %v", err)
	}
	if _, err := r.CreateNamespace(ctx, "..", ""); !fault.Is(err, fault.Invalid) {
		t.Errorf("illegal: %v", err)
	}
	r.create(topology.Topic{Name: "orders"})
	r.create(topology.Topic{Namespace: "team.a", Name: "orders"})
	if err := r.DeleteNamespace(ctx, "team.a"); !fault.Is(err, fault.Conflict) {
		t.Errorf("not empty: %v", err)
	}
	if err := r.DeleteTopic(ctx, topology.Name{Namespace: "team.a", Topic: "orders"}, partition.UUID{}); err != nil {
		t.Fatal(err)
	}
	if err := r.DeleteNamespace(ctx, "team.a"); err != nil {
		t.Error(err)
	}
	if err := r.DeleteNamespace(ctx, "team.a"); !fault.Is(err, fault.NotFound) {
		t.Errorf("gone: %v", err)
	}
	if err := r.DeleteNamespace(ctx, topology.DefaultNamespace); !fault.Is(err, fault.Invalid) {
		t.Errorf("default: %v", err)
	}
	if _, err := r.CreateTopic(ctx, catalog.CreateTopic{Topic: topology.Topic{Namespace: "team.a", Name: "x"}}); !fault.Is(err, fault.NotFound) {
		t.Errorf("topic in a namespace that is gone: %v", err)
	}
	found, more, err := r.Namespaces(t.Context(), "", 10)
	if err != nil || more || len(found) != 1 || found[0].Name != topology.DefaultNamespace {
		t.Errorf("left: %v %v %v", found, more, err)
	}
}
