package replica

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/durability"
)

func TestPublishAndFetch(t *testing.T) {
	g := newRig(t).start()
	p := g.mustPublish("a", "b")
	want := Published{BaseOffset: 1, LastOffset: 2, OffsetKnown: true, Epoch: 1, HighWatermark: 3, AppendTime: g.clock.Now().UnixMicro(), Durability: wirecapnp.Durability_fsyncQuorum}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	g.mustPublish("c")
	if diff := cmp.Diff([]record{{1, "a"}, {2, "b"}, {3, "c"}}, g.read(0)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]record{{2, "b"}, {3, "c"}}, g.read(2)); diff != "" {
		t.Errorf("records from the middle of a batch (-want +got):\n%s", diff)
	}
}

// Whoever is answered finds what he was answered: the next read has the high watermark behind it.
func TestReadYourWrites(t *testing.T) {
	g := newRig(t).start()
	for range 500 {
		p := g.mustPublish("a")
		if s := g.r.State(); s.HighWatermark <= p.LastOffset {
			t.Fatalf("acknowledged at %d, the high watermark is %d", p.LastOffset, s.HighWatermark)
		}
	}
	if s := g.seal(); s.SealedEnd != g.r.State().SealedEnd {
		t.Errorf("sealed up to %d, the state says %d", s.SealedEnd, g.r.State().SealedEnd)
	}
}

func TestFetchWaitsForTheHighWatermark(t *testing.T) {
	g := newRig(t).start()
	got := make(chan Fetched, 1)
	go func() {
		f, err := g.r.Fetch(context.Background(), Fetch{Offset: 1, Wait: time.Hour})
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	if err := g.clock.AwaitPending(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	g.mustPublish("late")
	f := <-got
	if f.NextOffset != 2 || f.HighWatermark != 2 {
		t.Errorf("woke with next %d, high watermark %d", f.NextOffset, f.HighWatermark)
	}
	f.Chunk.Close()

	// Nothing comes: the answer says where to go on, with no bytes.
	go func() {
		f, err := g.r.Fetch(context.Background(), Fetch{Offset: 2, Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		got <- f
	}()
	if err := g.clock.AwaitPending(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	g.clock.Advance(time.Minute)
	if f := <-got; f.Chunk != nil || f.NextOffset != 2 {
		t.Errorf("after the wait: %+v", f)
	}
}

func TestFetchRefusals(t *testing.T) {
	g := newRig(t).start()
	g.mustPublish("a")
	for _, c := range []struct {
		name string
		f    Fetch
		kind fault.Kind
		at   uint64
	}{
		{"above the high watermark", Fetch{Offset: 9}, fault.OffsetOutOfRange, 2},
		{"a later epoch than ours", Fetch{Offset: 0, Epoch: 7}, fault.StaleEpoch, 0},
	} {
		_, err := g.r.Fetch(t.Context(), c.f)
		if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != c.kind || f.Offset != c.at {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A replica that does not lead reads what is committed, takes nothing, and does not say that an offset is out of range: its high watermark may
// be behind.
func TestNotLeading(t *testing.T) {
	g := newRig(t).start()
	g.mustPublish("a")
	g.mustPublish("b")
	g.crashAll()
	if err := g.open(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.publish("x"); !fault.Is(err, fault.NotLeader) {
		t.Errorf("publish: %v", err)
	}
	if _, err := g.r.Fetch(t.Context(), Fetch{Offset: 50}); !fault.Is(err, fault.NotLeader) {
		t.Errorf("fetch above: %v", err)
	}
	if _, err := g.r.Seal(t.Context()); !fault.Is(err, fault.NotLeader) {
		t.Errorf("seal: %v", err)
	}
	if diff := cmp.Diff([]record{{1, "a"}}, g.read(0)); diff != "" {
		t.Errorf("below the high watermark that the log proves (-want +got):\n%s", diff)
	}
	g.elect()
	if diff := cmp.Diff([]record{{1, "a"}, {2, "b"}}, g.read(0)); diff != "" {
		t.Errorf("leading again (-want +got):\n%s", diff)
	}
}

func TestDuplicates(t *testing.T) {
	g := newRig(t).start()
	send := func(pid, seq uint64, key string, values ...string) (Published, error) {
		return g.sendWait(Publish{Msg: message(batch.BuildOptions{ProducerID: pid, BaseSequence: seq, DedupeKey: batch.DedupeKeyOf(key)}, values...)})
	}
	first, err := send(7, 0, "", "a", "b")
	if err != nil {
		t.Fatal(err)
	}
	again, err := send(7, 0, "", "a", "b")
	if err != nil || !again.Duplicate || again.BaseOffset != first.BaseOffset || again.LastOffset != first.LastOffset {
		t.Errorf("again: %+v %v", again, err)
	}
	if _, err := send(7, 0, "", "a", "B"); !fault.Is(err, fault.SequenceReused) {
		t.Errorf("other bytes under the same sequence: %v", err)
	}
	_, err = send(7, 9, "", "z")
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.OutOfOrder || f.Offset != 2 {
		t.Errorf("a gap: %v", err)
	}
	if _, err := send(8, 3, "", "z"); !fault.Is(err, fault.UnknownProducer) {
		t.Errorf("an unknown producer: %v", err)
	}
	for seq := uint64(2); seq < 9; seq++ {
		if _, err := send(7, seq, "", "more"); err != nil {
			t.Fatal(err)
		}
	}
	if old, err := send(7, 0, "", "a", "b"); err != nil || !old.Duplicate || old.OffsetKnown {
		t.Errorf("an old duplicate: %+v %v", old, err)
	}
	keyed, err := send(0, 0, "k", "once")
	if err != nil {
		t.Fatal(err)
	}
	if twice, err := send(0, 0, "k", "once"); err != nil || !twice.Duplicate || twice.BaseOffset != keyed.BaseOffset {
		t.Errorf("the same key: %+v %v", twice, err)
	}
	// All of it survives a restart.
	g.crashAll()
	g.start()
	if again, err := send(7, 8, "", "more"); err != nil || !again.Duplicate || again.BaseOffset != 9 {
		t.Errorf("after a restart: %+v %v", again, err)
	}
	if twice, err := send(0, 0, "k", "once"); err != nil || !twice.Duplicate || twice.BaseOffset != keyed.BaseOffset {
		t.Errorf("the same key after a restart: %+v %v", twice, err)
	}
	if got := len(g.read(0)); got != 10 {
		t.Errorf("%d records, want 10", got)
	}
}

// A retry in the same group as its original waits for the commit (R5), and both get the same offset. The disk hangs before and in that group.
func TestDuplicateOfWhatIsNotCommitted(t *testing.T) {
	var disk *faultfs.FS
	g := newRig(t, func(g *rig) { g.wrap = func(m *memfs.FS) vfs.FS { disk = faultfs.New(m, g.clock); return disk } }).start()
	syncs := make(chan struct{}, 100)
	disk.Observe(func(c faultfs.Call) {
		if c.Op == faultfs.Sync && strings.HasSuffix(c.Path, ".log") {
			syncs <- struct{}{}
		}
	})
	first, second := make(chan struct{}), make(chan struct{})
	disk.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", Count: 1, Until: first})
	disk.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", First: 2, Count: 1, Until: second})
	before := g.send(Publish{Msg: message(batch.BuildOptions{}, "before")})
	<-syncs
	original := g.send(Publish{Msg: message(batch.BuildOptions{ProducerID: 1}, "x")})
	retry := g.send(Publish{Msg: message(batch.BuildOptions{ProducerID: 1}, "x")})
	other := g.send(Publish{Msg: message(batch.BuildOptions{ProducerID: 1}, "y")})
	close(first)
	<-syncs // the group is written, and its sync hangs
	if r := <-before; r.err != nil {
		t.Error(r.err)
	}
	select {
	case r := <-retry:
		t.Fatalf("answered before the original was committed: %+v", r)
	case r := <-original:
		t.Fatalf("answered before the sync: %+v", r)
	default:
	}
	close(second)
	a, b, c := <-original, <-retry, <-other
	if a.err != nil || b.err != nil || !b.Duplicate || a.BaseOffset != b.BaseOffset {
		t.Errorf("original %+v, retry %+v", a, b)
	}
	if !fault.Is(c.err, fault.SequenceReused) {
		t.Errorf("another batch under the sequence: %+v", c)
	}
}

// A retry storm: many senders repeat every batch at random; each value is in the log once, in order per producer.
func TestRetryStorm(t *testing.T) {
	g := newRig(t).start()
	const producers, batches = 8, 60
	done := make(chan error, producers)
	for p := range producers {
		go func() { done <- storm(g, uint64(p+1), batches) }()
	}
	for range producers {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	seen := map[string]bool{}
	for _, r := range g.read(0) {
		if seen[r.Value] {
			t.Errorf("%s is there twice", r.Value)
		}
		seen[r.Value] = true
	}
	if len(seen) != producers*batches {
		t.Errorf("%d values, want %d", len(seen), producers*batches)
	}
}

func storm(g *rig, pid uint64, batches int) error {
	rng := rand.New(rand.NewPCG(pid, 1))
	for seq := range batches {
		value := values(1, string(rune('a'+pid)))[0] + "-" + values(seq+1, "")[seq]
		sends := make([]<-chan result, 1+rng.IntN(3))
		for i := range sends {
			sends[i] = g.send(Publish{Msg: message(batch.BuildOptions{ProducerID: pid, BaseSequence: uint64(seq)}, value)})
		}
		var at partition.Offset
		for i, s := range sends {
			r := <-s
			if r.err != nil {
				return r.err
			}
			if i > 0 && r.BaseOffset != at {
				return fault.Errorf(fault.Internal, "%s at %d and at %d", value, at, r.BaseOffset)
			}
			at = r.BaseOffset
		}
	}
	return nil
}

func TestRelease(t *testing.T) {
	g := newRig(t).start()
	released := make(chan string, 3)
	g.sendWait(Publish{Msg: message(batch.BuildOptions{}, "a"), Release: func() { released <- "appended" }})
	g.sendWait(Publish{Msg: []byte("no batch"), Release: func() { released <- "refused" }})
	g.sendWait(Publish{Msg: message(batch.BuildOptions{ProducerID: 9, BaseSequence: 5}, "a"), Release: func() { released <- "unknown producer" }})
	for _, want := range []string{"appended", "refused", "unknown producer"} {
		if got := <-released; got != want {
			t.Errorf("released %q, want %q", got, want)
		}
	}
}

func TestOverload(t *testing.T) {
	var disk *faultfs.FS
	g := newRig(t, func(g *rig) {
		g.limits = Limits{QueueBatches: 3}
		g.wrap = func(m *memfs.FS) vfs.FS { disk = faultfs.New(m, g.clock); return disk }
	}).start()
	hang := make(chan struct{})
	active := disk.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", Until: hang})
	var waiting []<-chan result
	for range 3 {
		waiting = append(waiting, g.send(Publish{Msg: message(batch.BuildOptions{}, "x")}))
	}
	_, err := g.publish("one too many")
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Overloaded || f.RetryAfter == 0 {
		t.Errorf("the fourth: %v", err)
	}
	active.Remove()
	close(hang)
	for _, w := range waiting {
		if r := <-w; r.err != nil {
			t.Error(r.err)
		}
	}
	g.mustPublish("there is room again")
}

// A full disk refuses, loses nothing, and takes batches again when there is room.
func TestDiskFull(t *testing.T) {
	var disk *faultfs.FS
	g := newRig(t, func(g *rig) { g.wrap = func(m *memfs.FS) vfs.FS { disk = faultfs.New(m, g.clock); return disk } }).start()
	g.mustPublish("a")
	active := disk.Add(faultfs.Rule{Ops: faultfs.Write | faultfs.Allocate, Path: "*.log", Err: syscall.ENOSPC})
	for range 2 {
		if _, err := g.sendWait(Publish{Msg: message(batch.BuildOptions{ProducerID: 4}, "b")}); !fault.Is(err, fault.DiskFull) {
			t.Fatalf("a full disk: %v", err)
		}
	}
	active.Remove()
	if p, err := g.sendWait(Publish{Msg: message(batch.BuildOptions{ProducerID: 4}, "b")}); err != nil || p.Duplicate || p.BaseOffset != 2 {
		t.Fatalf("with room again: %+v %v", p, err)
	}
	g.full = true
	if _, err := g.publish("c"); !fault.Is(err, fault.DiskFull) {
		t.Fatalf("beyond the refusal mark: %v", err)
	}
	g.crashAll()
	g.full = false
	g.start()
	if diff := cmp.Diff([]record{{1, "a"}, {2, "b"}}, g.read(0)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// A failed sync is never retried: the replica stops, and what it had not answered is unknown.
func TestSyncFails(t *testing.T) {
	var disk *faultfs.FS
	g := newRig(t, func(g *rig) { g.wrap = func(m *memfs.FS) vfs.FS { disk = faultfs.New(m, g.clock); return disk } }).start()
	g.mustPublish("a")
	disk.Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", Err: syscall.EIO})
	if _, err := g.publish("b"); !fault.Is(err, fault.OutcomeUnknown) {
		t.Errorf("publish: %v", err)
	}
	if err := <-g.failed; !fault.Is(err, fault.DiskPoisoned) {
		t.Errorf("failed with %v", err)
	}
	if _, err := g.publish("c"); err == nil {
		t.Error("a failed replica takes a batch")
	}
	if _, err := g.r.Fetch(t.Context(), Fetch{Offset: 2, Wait: time.Hour}); err == nil {
		t.Error("a failed replica lets a fetch wait")
	}
}

func TestAckNone(t *testing.T) {
	g := newRig(t).start()
	p, err := g.sendWait(Publish{Msg: message(batch.BuildOptions{}, "a"), AckNone: true})
	if err != nil || p.Durability != wirecapnp.Durability_none || p.OffsetKnown {
		t.Errorf("%+v %v", p, err)
	}
	g.await(func(s State) bool { return s.HighWatermark == 2 })
}

func TestSyncPolicies(t *testing.T) {
	for _, c := range []struct {
		name    string
		policy  durability.Policy
		relaxed bool
		want    wirecapnp.Durability
	}{
		{"quorum topic, every batch", durability.Policy{}, false, wirecapnp.Durability_fsyncQuorum},
		{"relaxed topic, every batch", durability.Policy{}, true, wirecapnp.Durability_writtenQuorum},
		{"quorum topic, none", durability.Policy{None: true}, false, wirecapnp.Durability_writtenQuorum},
		{"quorum topic, interval", durability.Policy{Interval: time.Second}, false, wirecapnp.Durability_writtenQuorum},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, func(g *rig) {
				g.sync = c.policy
				if c.relaxed {
					g.topic.Durability = topology.DurabilityRelaxed
				}
			}).start()
			if p := g.mustPublish("a"); p.Durability != c.want {
				t.Errorf("ack says %s, want %s", p.Durability, c.want)
			}
			if s := g.r.State(); s.Durability != c.want {
				t.Errorf("state says %s, want %s", s.Durability, c.want)
			}
			// Sealing works without a sync policy that would persist anything.
			if s, err := g.r.Seal(t.Context()); err != nil || s.SealedEnd != 2 || !s.Sealed {
				t.Errorf("seal: %+v %v", s, err)
			}
			g.mustPublish("b")
			g.crashAll()
			g.start()
			if diff := cmp.Diff([]string{"a", "b"}, valuesOf(g.read(0))); diff != "" {
				t.Errorf("after kill -9 (-want +got):\n%s", diff)
			}
		})
	}
}

func valuesOf(records []record) []string {
	var out []string
	for _, r := range records {
		out = append(out, r.Value)
	}
	return out
}

// An interval policy syncs when its time has come, and power loss takes nothing older.
func TestIntervalSync(t *testing.T) {
	g := newRig(t, func(g *rig) { g.sync = durability.Policy{Interval: time.Second} }).start()
	g.mustPublish("a")
	g.tick(2 * time.Second)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for g.r.wal.Persisted() < 2 {
		if ctx.Err() != nil {
			t.Fatalf("persisted up to %d", g.r.wal.Persisted())
		}
		g.tick(0)
	}
	g.mem = survive(g, g.mem.CrashNone())
	g.start()
	if diff := cmp.Diff([]string{"a"}, valuesOf(g.read(0))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func survive(g *rig, fs *memfs.FS) *memfs.FS {
	g.kill()
	return fs
}

func TestListOffsets(t *testing.T) {
	g := newRig(t).start()
	g.mustPublish("a")
	g.clock.Advance(time.Minute)
	later := g.clock.Now().UnixMicro()
	g.mustPublish("b")
	for _, c := range []struct {
		name string
		l    ListOffset
		want partition.Offset
	}{
		{"earliest", ListOffset{Where: Earliest}, 0},
		{"latest", ListOffset{Where: Latest}, 3},
		{"at a time", ListOffset{Where: AtTime, Time: later}, 2},
		{"before everything", ListOffset{Where: AtTime, Time: 0}, 0},
		{"after everything", ListOffset{Where: AtTime, Time: later + 1}, 3},
	} {
		if got, err := g.r.ListOffset(t.Context(), c.l); err != nil || got.Offset != c.want {
			t.Errorf("%s: %+v %v, want %d", c.name, got, err, c.want)
		}
	}
}

// The activation may be lost or unknown: the register is read again (R8).
func TestActivationIsLookedUp(t *testing.T) {
	for _, c := range []struct {
		name  string
		apply bool
	}{{"applied and not heard", true}, {"not applied", false}} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t)
			tries := 0
			g.register.activate = func() (apply, hear bool) {
				if tries++; tries == 1 {
					return c.apply, false
				}
				return true, true
			}
			g.start()
			g.mustPublish("a")
		})
	}
}

// R2: the next life waits for its own epoch, although the register names the same broker.
func TestNextLifeWaitsForItsEpoch(t *testing.T) {
	g := newRig(t).start()
	g.mustPublish("a")
	g.crashAll()
	if err := g.open(); err != nil {
		t.Fatal(err)
	}
	a, revision, _ := g.register.Reread(t.Context(), partition.ID{})
	g.r.Assign(a, revision)
	g.tick(time.Second)
	if g.r.Active() {
		t.Fatal("the next life has taken up the epoch of the one before")
	}
	g.elect()
	if s := g.r.State(); s.Epoch != 2 {
		t.Errorf("leads epoch %d", s.Epoch)
	}
}
