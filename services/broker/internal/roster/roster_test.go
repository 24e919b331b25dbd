package roster

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/disk"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/replica"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	cluster = partition.UUIDOf(9, 9)
	orders  = partition.UUIDOf(1, 1)
)

const node = partition.NodeID(1)

// broker is a roster with its disk, a topology in memory, and a coordinator played by hand.
type broker struct {
	t           *testing.T
	disk        vfs.FS
	clock       *clock.Manual
	store       *memstore.Store
	incarnation partition.Incarnation
	metrics     *prometheus.Registry
	journal     *journal.Journal
	watch       *disk.Watch
	*Roster
	cancel  context.CancelFunc
	ended   chan error
	done    chan struct{} // the follower has ended
	claimed int64         // revision of its claim; 0 = it does not know
	// nominating keeps the faults of the store away from the test's own calls.
	nominating atomic.Bool
	wanted     map[partition.ID]partition.Epoch
}

func newBroker(t *testing.T) *broker {
	c := clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	b := &broker{t: t, disk: memfs.New(), clock: c, store: memstore.New(c), wanted: map[partition.ID]partition.Epoch{}}
	t.Cleanup(func() { b.stop(); b.store.Close() })
	return b
}

// start begins the next life on the disk.
func (b *broker) start() *broker {
	b.t.Helper()
	b.incarnation++
	log := slog.New(slog.DiscardHandler)
	j, state, err := journal.Open(journal.Config{FS: b.disk, Dir: "journal", Create: true})
	if err != nil {
		b.t.Fatal(err)
	}
	follower := topology.NewFollower(b.store, log, b.clock)
	if err := follower.Refresh(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	b.metrics, b.journal = prometheus.NewRegistry(), j
	b.watch, err = disk.New(disk.Config{FS: b.disk, Clock: b.clock, Log: log, Metrics: b.metrics})
	if err != nil {
		b.t.Fatal(err)
	}
	b.Roster, err = New(Config{Node: node, Incarnation: b.incarnation, Claimed: b.claimed, Cluster: cluster}, Deps{
		FS: b.disk, Disk: b.watch, Journal: j, State: state, Store: b.store, View: follower, Clock: b.clock, Log: log, Metrics: b.metrics,
		Peers: func(partition.ID) outbox.Peers { return nobody{} },
	})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel, b.ended, b.done = cancel, make(chan error, 1), make(chan struct{})
	go func() {
		defer close(b.done)
		var parts sync.WaitGroup
		parts.Go(func() { _ = follower.Run(ctx) })
		parts.Go(func() { _ = b.watch.Run(ctx) })
		parts.Wait()
	}()
	go func(r *Roster, ended chan error) { ended <- r.Run(ctx) }(b.Roster, b.ended)
	return b
}

// nobody is peers who never answer.
type nobody struct{}

func (nobody) Send(peer.Message)         {}
func (nobody) Room(partition.NodeID) int { return 0 }

func (b *broker) stop() error {
	if b.cancel == nil {
		return nil
	}
	b.cancel()
	err := <-b.ended
	<-b.done
	b.cancel = nil
	b.journal.Close()
	return err
}

func (b *broker) put(key string, value any) {
	b.t.Helper()
	data, err := topology.Encode(value)
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.store.Txn(b.t.Context(), nil, []topology.Op{{Key: key, Value: data}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) putTopic(id partition.UUID, deleted bool) {
	t := topology.Topic{V: topology.SchemaVersion, ID: id, Name: "orders", Partitions: 2, MapVersion: 1, SegmentBytes: 1 << 20}
	if deleted {
		now := b.clock.Now()
		t.Deleted = &now
	}
	b.put(topology.TopicKey(id), t)
}

func replicaOf(id partition.ID) partition.UUID { return partition.UUIDOf(uint64(id.Index)+100, 7) }

// nominate writes the next epoch of a partition for this broker's present life.
func (b *broker) nominate(id partition.ID) {
	b.t.Helper()
	b.nominating.Store(true)
	defer b.nominating.Store(false)
	leader := topology.Leader{Broker: node, Incarnation: b.incarnation, Replica: replicaOf(id)}
	set := []partition.Member{{Broker: node, Replica: leader.Replica}}
	kv, ok, _, err := b.store.Get(b.t.Context(), topology.PartitionKey(id))
	if err != nil {
		b.t.Fatal(err)
	}
	if !ok {
		b.put(topology.PartitionKey(id), topology.First(leader, set))
		b.wanted[id] = 1
		return
	}
	a, err := topology.Decode[topology.Assignment](kv.Value)
	if err != nil {
		b.t.Fatal(err)
	}
	b.put(topology.PartitionKey(id), a.Nominate(leader, set))
	b.wanted[id] = a.Epoch + 1
}

// await waits until a condition holds, moving the clock.
func (b *broker) await(what string, holds func() bool) {
	b.t.Helper()
	deadline := time.After(20 * time.Second)
	for !holds() {
		select {
		case <-deadline:
			b.t.Fatalf("never: %s; ready: %v", what, b.Ready())
		case <-time.After(time.Millisecond): // the other goroutines' turn
			b.clock.Advance(50 * time.Millisecond)
		}
	}
}

func (b *broker) awaitReady() {
	b.t.Helper()
	b.await("ready", func() bool {
		for id, epoch := range b.wanted {
			if r, ok := b.Replica(id); !ok || !r.Active() || r.State().Epoch != epoch {
				return false
			}
		}
		return b.Ready() == nil
	})
}

func (b *broker) publish(id partition.ID, value string) replica.Published {
	b.t.Helper()
	var builder batch.Builder
	builder.Reset()
	if err := builder.Add(batch.Record{Value: []byte(value)}); err != nil {
		b.t.Fatal(err)
	}
	msg, err := builder.Build(nil, batch.BuildOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	r, ok := b.Replica(id)
	if !ok {
		b.t.Fatalf("no replica of %s", id)
	}
	answer := make(chan replica.Published, 1)
	r.Publish(replica.Publish{Msg: msg, Done: func(p replica.Published, err error) {
		if err != nil {
			b.t.Errorf("publish: %v", err)
		}
		answer <- p
	}})
	return <-answer
}

func TestOpenActivateServeRestart(t *testing.T) {
	b := newBroker(t)
	id0, id1 := partition.ID{Topic: orders, Index: 0}, partition.ID{Topic: orders, Index: 1}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id0)
	b.nominate(id1)
	b.await("two replicas", func() bool { return len(b.replicas()) == 2 })
	b.awaitReady()
	if p := b.publish(id0, "a"); p.BaseOffset != 1 || p.Epoch != 1 {
		t.Errorf("published %+v", p)
	}
	a, _, err := b.Reread(t.Context(), id0)
	if err != nil || a.Status != topology.Active || len(a.Starts) != 1 || a.Starts[0] != (topology.Start{Epoch: 1, Offset: 0}) {
		t.Errorf("assignment %+v %v", a, err)
	}
	if err := testutil.GatherAndCompare(b.metrics, strings.NewReader(`
# HELP sq_broker_leaders Replicas that lead and serve.
# TYPE sq_broker_leaders gauge
sq_broker_leaders 2
# HELP sq_broker_log_end_offsets Sum of the log ends of all replicas.
# TYPE sq_broker_log_end_offsets gauge
sq_broker_log_end_offsets 3
`), "sq_broker_leaders", "sq_broker_log_end_offsets"); err != nil {
		t.Error(err)
	}
	if err := b.stop(); err != nil {
		t.Errorf("Run: %v", err)
	}

	// The next life has the data, and is ready when it has its own epochs.
	b.start()
	b.await("two replicas again", func() bool { return len(b.replicas()) == 2 })
	if err := b.Ready(); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "2 of 2 partitions") {
		t.Errorf("ready without an epoch: %v", err)
	}
	b.nominate(id0)
	b.nominate(id1)
	b.awaitReady()
	if p := b.publish(id0, "b"); p.BaseOffset != 3 || p.Epoch != 2 {
		t.Errorf("published %+v", p)
	}
}

// The activation's answer is lost, and the store is away for a while: the partition becomes active all the same (R8).
func TestActivationThroughABadStore(t *testing.T) {
	b := newBroker(t)
	id := partition.ID{Topic: orders}
	b.putTopic(orders, false)
	b.start()
	var lost, away atomic.Int32
	b.store.SetFaults(func(c memstore.Call) memstore.Fault {
		switch {
		case c.Key != topology.PartitionKey(id) || b.nominating.Load():
			return memstore.None
		case c.Method == memstore.Txn && lost.Add(1) == 1:
			return memstore.Ambiguous
		case c.Method == memstore.Get && lost.Load() > 0 && away.Add(1) < 4:
			return memstore.Unavailable
		}
		return memstore.None
	})
	b.nominate(id)
	b.awaitReady()
	b.publish(id, "a")
}

// A tombstone deletes, absence does not; what is deleted is the replica, not a path made of names.
func TestDelete(t *testing.T) {
	b := newBroker(t)
	id := partition.ID{Topic: orders}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id)
	b.awaitReady()
	b.publish(id, "a")
	dir := dirOf(replicaOf(id))
	if _, err := b.store.Txn(t.Context(), nil, []topology.Op{
		{Key: topology.PartitionKey(id), Delete: true}, {Key: topology.TopicKey(orders), Delete: true},
	}); err != nil {
		t.Fatal(err)
	}
	b.await("the view without the topic", func() bool { _, ok := b.Topic(orders); return !ok })
	b.publish(id, "still there")
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.start()
	if _, err := b.disk.Stat(dir); err != nil {
		t.Fatalf("absence deleted: %v", err)
	}
	b.putTopic(orders, true)
	b.await("deletion", func() bool { _, err := b.disk.Stat(dir); return errors.Is(err, fs.ErrNotExist) })
	b.await("the journal forgets", func() bool { _, ok := b.journal.Replica(replicaOf(id)); return !ok })
	if _, ok := b.Replica(id); ok {
		t.Error("the replica is still served")
	}
}

// An emptied disk is not the old replica with an empty log (I10).
func TestLostDataIsNotAnEmptyLog(t *testing.T) {
	b := newBroker(t)
	id := partition.ID{Topic: orders}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id)
	b.awaitReady()
	b.publish(id, "a")
	for name, wipe := range map[string]func(){
		"the whole disk":        func() { b.disk = memfs.New() },
		"the replica directory": func() { _ = b.disk.RemoveAll(dirOf(replicaOf(id))) },
	} {
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		kept := b.disk.(*memfs.FS).CrashAll()
		wipe()
		b.start()
		b.nominate(id)
		b.await("the refusal", func() bool {
			return strings.Contains(errorText(b.Ready()), "corrupt") || strings.Contains(errorText(b.Ready()), "ident") || strings.Contains(errorText(b.Ready()), "not on this disk")
		})
		if _, ok := b.Replica(id); ok {
			t.Errorf("%s is gone, and the replica is served", name)
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		b.disk = kept
		b.start()
	}
	b.nominate(id)
	b.awaitReady()
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestAnotherClustersReplica(t *testing.T) {
	disk := memfs.New()
	want := ident{Format: formatNow, Cluster: cluster, Topic: orders, Replica: partition.UUIDOf(5, 5)}
	if err := disk.MkdirAll(root); err != nil {
		t.Fatal(err)
	}
	if err := makeDir(disk, want); err != nil {
		t.Fatal(err)
	}
	if err := checkDir(disk.CrashNone(), want); err != nil {
		t.Errorf("the own directory, after power loss: %v", err)
	}
	other := want
	other.Cluster = partition.UUIDOf(6, 6)
	if err := checkDir(disk, other); !fault.Is(err, fault.WrongCluster) {
		t.Errorf("another cluster: %v", err)
	}
	other = want
	other.Partition = 3
	if err := checkDir(disk, other); !fault.Is(err, fault.Corrupt) {
		t.Errorf("another partition: %v", err)
	}
}

// MayBeEmpty allows an empty log only to who certainly never acknowledged anything.
func TestMayBeEmpty(t *testing.T) {
	me, you := partition.Member{Broker: node, Replica: partition.UUIDOf(1, 0)}, partition.Member{Broker: 2, Replica: partition.UUIDOf(2, 0)}
	first := topology.First(topology.Leader{}, []partition.Member{me})
	active := first.Activate(0)
	joining := active.Nominate(topology.Leader{}, []partition.Member{me, you})
	again := active.Nominate(topology.Leader{}, []partition.Member{me})
	for _, c := range []struct {
		name string
		a    topology.Assignment
		m    partition.Member
		want bool
	}{
		{"member of a first epoch", first, me, true},
		{"member of an active epoch", active, me, false},
		{"member again", again, me, false},
		{"member that joins", joining, you, true},
		{"member of the base", joining, me, false},
		{"member that joined", joining.Activate(5), you, false},
		{"learner", topology.Assignment{Status: topology.Active, Members: []partition.Member{me}, Learners: []partition.Member{you}}, you, true},
		{"stranger", active, you, false},
	} {
		if got := c.a.MayBeEmpty(c.m); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

// A disk that fails ends Run, so that the process can end.
func TestDiskPoisonedEndsRun(t *testing.T) {
	b := newBroker(t)
	disk := faultfs.New(b.disk, b.clock)
	b.disk = disk
	id := partition.ID{Topic: orders}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id)
	b.awaitReady()
	disk.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", Err: syscall.EIO})
	var builder batch.Builder
	builder.Reset()
	_ = builder.Add(batch.Record{Value: []byte("x")})
	msg, _ := builder.Build(nil, batch.BuildOptions{})
	r, _ := b.Replica(id)
	answer := make(chan error, 1)
	r.Publish(replica.Publish{Msg: msg, Done: func(_ replica.Published, err error) { answer <- err }})
	if err := <-answer; !fault.Is(err, fault.OutcomeUnknown) {
		t.Errorf("publish: %v", err)
	}
	err := <-b.ended
	if !fault.Is(err, fault.DiskPoisoned) {
		t.Errorf("Run: %v", err)
	}
	b.ended <- err // for stop
	if err := b.stop(); !fault.Is(err, fault.DiskPoisoned) {
		t.Errorf("Run: %v", err)
	}
}

func TestHarvestWaits(t *testing.T) {
	b := newBroker(t)
	id := partition.ID{Topic: orders}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id)
	b.awaitReady()
	if got, err := b.Harvest(t.Context(), 0, 10); err != nil || len(got) != 0 {
		t.Errorf("without work: %+v %v", got, err)
	}
	type harvest struct {
		got []sealed.Harvest
		err error
	}
	waiting := make(chan harvest, 1)
	go func() {
		got, err := b.Harvest(t.Context(), time.Hour, 10)
		waiting <- harvest{got, err}
	}()
	b.publish(id, "a")
	r, _ := b.Replica(id)
	if _, err := r.Seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	h := <-waiting
	if h.err != nil || len(h.got) != 1 || len(h.got[0].Sealed) != 1 || h.got[0].Sealed[0].End != 2 {
		t.Errorf("harvest %+v", h)
	}
}

// The journal's evidence follows within a second, so that a crash can tell torn from corrupt.
func TestMarksAreKept(t *testing.T) {
	b := newBroker(t)
	id := partition.ID{Topic: orders}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id)
	b.awaitReady()
	b.publish(id, "a")
	b.await("marks", func() bool {
		kept, _ := b.journal.Replica(replicaOf(id))
		return kept.HW == 2 && kept.Mark.Offset == 2
	})
	kept, _ := b.journal.Replica(replicaOf(id))
	if diff := cmp.Diff(partition.Epoch(1), kept.Promise); diff != "" {
		t.Errorf("promise (-want +got):\n%s", diff)
	}
}

// A disk must not fill up between two looks at it: what is kept back is what seals, trims and the next start need.
func TestNearlyFullDiskRefusesRecordsSoon(t *testing.T) {
	b := newBroker(t)
	const capacity = 64 << 20
	b.disk = memfs.New(memfs.Capacity(capacity))
	id := partition.ID{Topic: orders}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id)
	b.awaitReady()
	b.publish(id, "a")
	f, err := b.disk.Open("other", vfs.Create|vfs.Write)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.WriteAt(make([]byte, capacity*92/100), 0); err != nil {
		t.Fatal(err)
	}
	for waited := time.Duration(0); b.watch.State() == disk.OK; waited += 25 * time.Millisecond {
		if waited > 30*25*time.Millisecond {
			t.Fatalf("records are still taken after %v", waited)
		}
		b.clock.Advance(25 * time.Millisecond)
		time.Sleep(10 * time.Millisecond) // the other goroutines' turn
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	b.await("room", func() bool { return b.watch.State() == disk.OK })
	b.publish(id, "b")
}
