package replica

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/petition"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

func compacted(g *rig) {
	g.topic.Cleanup, g.topic.TierDisabled = topology.CleanupCompact, true
}

// put publishes "key=value" pairs as one batch; a key alone is a tombstone.
func (g *rig) put(o batch.BuildOptions, pairs ...string) Published {
	g.t.Helper()
	var b batch.Builder
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		r := batch.Record{Key: []byte(key), Timestamp: 1}
		if ok {
			r.Value = []byte(value + strings.Repeat(".", 50))
		}
		if err := b.Add(r); err != nil {
			g.t.Fatal(err)
		}
	}
	msg, err := b.Build(nil, o)
	if err != nil {
		g.t.Fatal(err)
	}
	p, err := g.sendWait(Publish{Msg: msg})
	if err != nil {
		g.t.Fatal(err)
	}
	return p
}

// held gives "offset value" of all records.
func (g *rig) held() []string {
	var out []string
	for _, r := range g.read(0) {
		out = append(out, fmt.Sprintf("%d %s", r.Offset, strings.TrimRight(r.Value, ".")))
	}
	return out
}

// pass lets time pass until so many passes have ended; hardly any while one runs.
func (g *rig) pass(n float64) {
	g.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); g.passes() < n; {
		step := time.Second
		if g.metric("running") > 0 {
			step = 0
			if g.clock.Pending() > 0 {
				step = 50 * time.Millisecond
			}
		}
		g.tick(step)
		if time.Now().After(deadline) {
			g.t.Fatalf("%v passes, want %v", g.passes(), n)
		}
	}
	if g.passes() != n {
		g.t.Fatalf("%v passes, want %v", g.passes(), n)
	}
}

func (g *rig) passes() float64 { return g.metric("passes_total") }

// metric gives one of compaction's.
func (g *rig) metric(name string) float64 {
	families, err := g.metrics.Gather()
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "sq_broker_compaction_"+name {
			return f.GetMetric()[0].GetCounter().GetValue() + f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	g.t.Fatalf("no metric %s", name)
	return 0
}

// Sealed segments lose what has a newer record, offsets stay, producers are still told their duplicates, and a restart, after a clean stop and after
// a crash, finds the same.
func TestCompaction(t *testing.T) {
	g := newRig(t, compacted).start()
	g.put(batch.BuildOptions{}, "a=1", "b=1", "c=1") // 1 to 3; 0 is the EpochStart
	g.put(batch.BuildOptions{ProducerID: 9}, "a=2")
	g.seal()
	g.put(batch.BuildOptions{}, "b=2", "d=1")
	g.put(batch.BuildOptions{}, "c")
	g.seal()
	g.put(batch.BuildOptions{}, "a=3", "e=1")
	g.seal()
	before := g.held()
	g.pass(1)
	after := g.held()
	want := before[4:] // a=1, b=1, c=1, a=2 have newer records, the last of them in the newest sealed segment, which itself stays
	if diff := cmp.Diff(want, after); diff != "" {
		t.Fatalf("after a pass, of %v (-want +got):\n%s", before, diff)
	}
	check := func(life string) {
		t.Helper()
		if diff := cmp.Diff(after, g.held()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", life, diff)
		}
		dup := g.put(batch.BuildOptions{ProducerID: 9}, "a=2")
		if !dup.Duplicate || dup.BaseOffset != 4 {
			t.Errorf("%s: a duplicate is answered with %+v", life, dup)
		}
		for _, seal := range g.r.fold.Tier.Seals() {
			size, sum, err := g.r.wal.Digest(seal.Base)
			if err != nil || uint64(size) != seal.Size || sum != seal.SHA256 {
				t.Errorf("%s: segment %d has %d bytes, its seal says %d: %v", life, seal.Base, size, seal.Size, err)
			}
		}
	}
	check("this life")
	g.kill()
	g.start()
	check("after a stop")
	g.crashAll()
	g.start()
	check("after kill -9")
}

// A tombstone goes when it is of age, and the log goes on being compacted while it grows.
func TestTombstonesGo(t *testing.T) {
	g := newRig(t, compacted, func(g *rig) { g.topic.TombstoneAge = topology.Duration(time.Hour) }).start()
	g.put(batch.BuildOptions{}, "a=1", "b=1")
	g.seal()
	g.put(batch.BuildOptions{}, "a")
	g.seal()
	g.put(batch.BuildOptions{}, "x=1")
	g.seal()
	g.pass(1)
	if got := len(g.held()); got != 3 { // b, a's tombstone, x
		t.Fatalf("after the first pass: %v", g.held())
	}
	g.tick(40 * time.Minute)
	for range 20 {
		g.tick(time.Second)
	}
	if g.passes() != 1 {
		t.Error("a pass without need")
	}
	g.tick(21 * time.Minute)
	g.pass(2)
	if got := len(g.held()); got != 2 {
		t.Errorf("after an hour: %v", g.held())
	}
}

// What the log has named is finished by the next life, whatever the crash left; what it has not named is thrown away.
func TestCompactionIsFinishedByTheNextLife(t *testing.T) {
	for _, committed := range []bool{true, false} {
		var survivor atomic.Pointer[memfs.FS] // what a crash before the file is put in its place leaves
		g := newRig(t, compacted, func(g *rig) {
			g.wrap = func(m *memfs.FS) vfs.FS {
				disk := faultfs.New(m, g.clock)
				disk.Observe(func(c faultfs.Call) {
					if c.Op == faultfs.Rename && strings.HasSuffix(c.Path, ".compacted") {
						survivor.Store(m.CrashAll())
					}
				})
				return disk
			}
		}).start()
		g.put(batch.BuildOptions{}, "a=1", "b=1")
		g.seal()
		g.put(batch.BuildOptions{}, "a=2")
		g.seal()
		g.put(batch.BuildOptions{}, "c=1")
		g.seal()
		seal := g.rewrite(0)
		if committed {
			g.commitCompact(seal)
			g.r.mail.Post(g.r.compaction.Settle)
			for survivor.Load() == nil {
				g.tick(0)
			}
			g.kill()
			g.mem = survivor.Load()
		} else {
			g.crashAll()
		}
		g.wrap = nil
		g.topic.Cleanup = "" // installing does not depend on the topic's settings
		g.start()
		want := 4
		if committed {
			want = 3
			for deadline := time.Now().Add(20 * time.Second); g.r.wal.Segments()[0].Size != int64(seal.Size); g.tick(0) {
				if time.Now().After(deadline) {
					t.Fatal("the compacted file is not installed")
				}
			}
		}
		if got := g.held(); len(got) != want {
			t.Errorf("committed %v: %v", committed, got)
		}
		g.kill()
		g.topic.Cleanup = topology.CleanupCompact
		g.start()
		g.pass(1)
		if got := g.held(); len(got) != 3 {
			t.Errorf("committed %v, after a pass: %v", committed, got)
		}
		names, err := g.mem.List("replica/log")
		if err != nil || strings.Contains(strings.Join(names, " "), ".compacted") {
			t.Errorf("committed %v: files are left: %v, %v", committed, names, err)
		}
	}
}

// commitCompact has a Compact in the log.
func (g *rig) commitCompact(seal sealed.Seal) {
	g.t.Helper()
	_, err := ask(context.Background(), g.r, true, func(answer func(struct{}, error)) {
		g.r.request(petition.Petition{
			Decide: func() (func(batchcapnp.Control) error, error) {
				return func(c batchcapnp.Control) error { return sealed.FillCompact(c, seal) }, g.r.fold.Tier.CheckCompact(seal)
			},
			Done: func(err error) { answer(struct{}{}, err) },
		})
	})
	if err != nil {
		g.t.Fatal(err)
	}
}

// rewrite makes the compacted file of a segment, as a pass does.
func (g *rig) rewrite(i int) sealed.Seal {
	g.t.Helper()
	var s wal.SegmentInfo
	keys := compact.NewKeys(1<<20, 0)
	for n, segment := range g.r.wal.Segments() {
		if n == i {
			s = segment
		}
		if segment.State == wal.StateSealed {
			g.scan(segment.Base, func(h *batch.Header, msg []byte) error { keys.Learn(h, msg); return nil })
		}
	}
	file, err := g.r.wal.Compacted(s.Base)
	if err != nil {
		g.t.Fatal(err)
	}
	w := compact.NewRewriter(keys, 0, file.Append)
	g.scan(s.Base, w.Add)
	if err := w.Finish(); err != nil {
		g.t.Fatal(err)
	}
	size, sum, err := file.Finish()
	if err != nil {
		g.t.Fatal(err)
	}
	return sealed.Seal{Base: s.Base, End: s.End, Size: uint64(size), SHA256: sum}
}

func (g *rig) scan(base partition.Offset, visit func(h *batch.Header, msg []byte) error) {
	g.t.Helper()
	if _, err := g.r.wal.ScanSegment(base, base, func(h batch.Header, msg []byte) (bool, error) { return true, visit(&h, msg) }); err != nil {
		g.t.Fatal(err)
	}
}
