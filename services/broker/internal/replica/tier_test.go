package replica

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/seedqueue/sq/services/broker/internal/fold"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

func (g *rig) seal() SealResult {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 20*time.Second)
	defer cancel()
	s, err := g.r.Seal(ctx)
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

func (g *rig) harvest() sealed.Harvest {
	g.t.Helper()
	h, _, err := g.r.Harvest(g.t.Context(), 100)
	if err != nil {
		g.t.Fatal(err)
	}
	return h
}

// upload pretends that a tierer put the sealed segments in the bucket.
func upload(all []sealed.Untiered) []sealed.Segment {
	var out []sealed.Segment
	for _, s := range all {
		out = append(out, sealed.Segment{
			Base: s.Base, End: s.End, Epoch: s.Epoch, Size: s.Size, ObjectSize: s.Size + 100, SHA256: s.SHA256,
			Key: fmt.Sprintf("%d-%d-%x.seg", s.Base, s.End, s.SHA256[:4]), FirstAppendTime: s.FirstAppendTime, LastAppendTime: s.LastAppendTime,
		})
	}
	return out
}

// tier does all of a tierer's work.
func (g *rig) tier() sealed.Committed {
	g.t.Helper()
	h, ok, err := g.r.Harvest(g.t.Context(), 100)
	if err != nil {
		g.t.Fatal(err)
	}
	if !ok {
		return sealed.Committed{}
	}
	c := sealed.Committed{TierEnd: h.TierEnd, TableVersion: h.TableVersion}
	if len(h.Sealed) > 0 {
		if c, err = g.r.CommitTier(g.t.Context(), upload(h.Sealed)); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := g.r.Exported(g.t.Context(), sealed.Exported{Epoch: h.Epoch, TableVersion: c.TableVersion, TierEnd: c.TierEnd}); err != nil {
		g.t.Fatal(err)
	}
	return c
}

func TestSealHarvestCommitExportTrim(t *testing.T) {
	g := newRig(t).start()
	if s := g.seal(); s.Sealed || s.SealedEnd != 0 {
		t.Errorf("sealing an empty segment: %+v", s)
	}
	g.mustPublish("a", "b")
	g.mustPublish("c")
	if s := g.seal(); !s.Sealed || s.SealedEnd != 4 {
		t.Fatalf("sealed %+v", s)
	}
	if s := g.seal(); s.Sealed || s.SealedEnd != 4 {
		t.Errorf("sealing a tail of control batches: %+v", s)
	}
	h := g.harvest()
	if len(h.Sealed) != 1 || h.Sealed[0].Base != 0 || h.Sealed[0].End != 4 || h.Epoch != 1 || h.TierEnd != 0 {
		t.Fatalf("harvest %+v", h)
	}
	part, err := g.r.ReadSealed(0, 0, 1<<20)
	if err != nil || part.Size != h.Sealed[0].Size || len(part.Index) == 0 || uint64(part.Chunk.Len()) != part.Size {
		t.Fatalf("sealed part %+v %v", part, err)
	}
	part.Chunk.Close()
	state, err := fold.Decode(part.Snapshot)
	if err != nil || state.End() != 4 {
		t.Fatalf("snapshot: %v", err)
	}
	if _, err := g.r.ReadSealed(4, 0, 10); !fault.Is(err, fault.NotFound) {
		t.Errorf("read of the open segment: %v", err)
	}

	// Nothing local goes before a manifest covers it.
	segments := upload(h.Sealed)
	for range 2 { // the second is the same request again
		c, err := g.r.CommitTier(t.Context(), segments)
		if err != nil || c.TierEnd != 4 {
			t.Fatalf("commit: %+v %v", c, err)
		}
	}
	if r, err := g.r.Trim(t.Context(), 0, true); err != nil || r.LocalStart != 0 {
		t.Fatalf("trim before the export: %+v %v", r, err)
	}
	h = g.harvest()
	if h.TierEnd != 4 || h.ExportedVersion >= h.TableVersion {
		t.Fatalf("harvest after the commit %+v", h)
	}
	table, err := g.r.TierTable(t.Context(), 0, 0, 10)
	if diff := cmp.Diff(sealed.Excerpt{Epoch: 1, Version: h.TableVersion, TierEnd: 4, Segments: segments}, table); diff != "" || err != nil {
		t.Fatalf("table (-want +got):\n%s %v", diff, err)
	}
	if table, err := g.r.TierTable(t.Context(), h.TableVersion, 0, 10); err != nil || table.Segments != nil {
		t.Errorf("a table that is not newer: %+v %v", table, err)
	}
	if err := g.r.Exported(t.Context(), sealed.Exported{Epoch: 9, TableVersion: h.TableVersion, TierEnd: 4}); !fault.Is(err, fault.StaleEpoch) {
		t.Errorf("an export of another epoch: %v", err)
	}
	if err := g.r.Exported(t.Context(), sealed.Exported{Epoch: 1, TableVersion: h.TableVersion + 9, TierEnd: 4}); !fault.Is(err, fault.Invalid) {
		t.Errorf("an export of the future: %v", err)
	}
	if err := g.r.Exported(t.Context(), sealed.Exported{Epoch: 1, TableVersion: h.TableVersion, TierEnd: 4}); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := g.r.Harvest(t.Context(), 10); ok {
		t.Error("there is work although everything is done")
	}
	if r, err := g.r.Trim(t.Context(), 0, true); err != nil || r.LocalStart != 4 || r.LogStart != 0 {
		t.Fatalf("trim after the export: %+v %v", r, err)
	}
	_, err = g.r.Fetch(t.Context(), Fetch{Offset: 1})
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.OffsetTiered || f.Offset != 4 {
		t.Errorf("fetch of what is tiered: %v", err)
	}
	if l, err := g.r.ListOffset(t.Context(), ListOffset{Where: AtTime, Time: 1}); err != nil || l.Offset != 0 {
		t.Errorf("time in the bucket: %+v %v", l, err)
	}

	// All of it is the same after power loss, without the segment that is gone.
	g.mustPublish("d")
	g.mem = survive(g, g.mem.CrashNone())
	g.start()
	if s := g.r.State(); s.LocalStart != 4 || s.TierEnd != 4 || s.SealedEnd != 4 || s.LogStart != 0 {
		t.Errorf("state after power loss %+v", s)
	}
	table, err = g.r.TierTable(t.Context(), 0, 0, 10)
	if diff := cmp.Diff(segments, table.Segments); diff != "" || err != nil {
		t.Errorf("table after power loss (-want +got):\n%s %v", diff, err)
	}
	if diff := cmp.Diff([]string{"d"}, valuesOf(g.read(4))); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	g.mustPublish("e")
	g.seal()
	if h := g.harvest(); len(h.Sealed) != 1 || h.Sealed[0].Base != 4 {
		t.Errorf("the next segment: %+v", h)
	}
}

// Segments that an earlier life cut are sealed by the next, in whatever state the crash left them.
func TestSealingGoesOnAfterACrash(t *testing.T) {
	for cut := range 12 {
		g := newRig(t, func(g *rig) { g.topic.SegmentBytes = 2000 }).start()
		for range 3 + cut {
			g.mustPublish("some value")
		}
		g.crashAll() // the sealing of what was cut is under way
		g.start()
		g.mustPublish("one more")
		if s := g.seal(); s.SealedEnd == 0 {
			t.Fatalf("sealed %+v", s)
		}
		h := g.harvest()
		var at partition.Offset
		for _, s := range h.Sealed {
			if s.Base != at {
				t.Fatalf("%d batches: segment [%d, %d) does not follow %d", 3+cut, s.Base, s.End, at)
			}
			at = s.End
		}
		if got := g.r.State().SealedEnd; at != got {
			t.Fatalf("%d batches: harvest up to %d, sealed up to %d", 3+cut, at, got)
		}
		g.kill()
	}
}

func TestTrim(t *testing.T) {
	g := newRig(t).start()
	g.mustPublish("a", "b")
	g.seal()
	g.mustPublish("c", "d")
	c := g.r.State().HighWatermark
	if _, err := g.r.Trim(t.Context(), c+1, false); !fault.Is(err, fault.OffsetOutOfRange) {
		t.Errorf("above the high watermark: %v", err)
	}
	if r, err := g.r.Trim(t.Context(), 2, false); err != nil || r.LogStart != 2 || r.LocalStart != 2 {
		t.Errorf("within a segment: %+v %v", r, err)
	}
	_, err := g.r.Fetch(t.Context(), Fetch{Offset: 1})
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.OffsetTrimmed || f.Offset != 2 {
		t.Errorf("fetch below: %v", err)
	}
	if r, err := g.r.Trim(t.Context(), 5, false); err != nil || r.LogStart != 5 || g.r.wal.Start() != 3 {
		t.Errorf("beyond a segment: %+v %v, the log starts at %d", r, err, g.r.wal.Start())
	}
	if r, err := g.r.Trim(t.Context(), 1, false); err != nil || r.LogStart != 5 {
		t.Errorf("back: %+v %v", r, err)
	}
	// What the trim passed before it was tiered, the bucket never gets; what follows it, it does.
	if h := g.harvest(); h.TierEnd != 3 || len(h.Sealed) != 0 {
		t.Errorf("harvest %+v", h)
	}
	g.seal()
	if h := g.harvest(); len(h.Sealed) != 1 || h.Sealed[0].Base != 3 {
		t.Errorf("harvest %+v", h)
	}
	g.crashAll()
	g.start()
	if s := g.r.State(); s.LogStart != 5 || s.TierEnd != 3 {
		t.Errorf("after a restart: %+v", s)
	}
}

// Retention moves the log start by age, then drops the objects, which may be collected after the grace.
func TestRetentionOfTheBucket(t *testing.T) {
	g := newRig(t, func(g *rig) { g.topic.RetentionTime = topology.Duration(24 * time.Hour) }).start()
	g.mustPublish("old")
	g.seal()
	g.tier()
	g.mustPublish("young")
	g.seal()
	g.tick(25 * time.Hour)
	g.mustPublish("now")
	// Both sealed segments are too old now; the open one stays.
	g.until("a log start of 6", func() bool { return g.r.State().LogStart == 6 })
	h := g.harvest()
	if len(h.Collectable) != 0 {
		t.Errorf("collectable before the grace: %v", h.Collectable)
	}
	g.until("an empty table", func() bool {
		table, err := g.r.TierTable(t.Context(), 0, 0, 10)
		return err == nil && len(table.Segments) == 0
	})
	g.tick(2 * time.Hour)
	if h := g.harvest(); len(h.Collectable) != 0 {
		t.Errorf("collectable before a manifest without it is exported: %v", h.Collectable)
	}
	g.tier()
	h = g.harvest()
	if len(h.Collectable) != 1 {
		t.Fatalf("collectable: %+v", h)
	}
	if err := g.r.Collected(t.Context(), h.Collectable); err != nil {
		t.Fatal(err)
	}
	if h := g.harvest(); len(h.Collectable) != 0 {
		t.Errorf("collected, and still: %v", h.Collectable)
	}
}

// Local retention keeps what is young and small, and frees only what a manifest covers.
func TestLocalRetention(t *testing.T) {
	g := newRig(t, func(g *rig) { g.topic.LocalTime = topology.Duration(time.Hour) }).start()
	g.mustPublish("a")
	g.seal()
	g.tick(2 * time.Hour)
	g.tick(2 * time.Second)
	if s := g.r.State(); s.LocalStart != 0 {
		t.Errorf("freed without a manifest: %+v", s)
	}
	g.tier()
	g.until("a local start of 2", func() bool { return g.r.State().LocalStart == 2 })
	g.mustPublish("b")
	g.seal()
	g.tier()
	g.tick(2 * time.Second)
	if s := g.r.State(); s.LocalStart != 2 {
		t.Errorf("freed what is young: %+v", s)
	}
}

// A disk that is full while a segment is being marked sealed only delays it: what frees the disk depends on it.
func TestSealingOnAFullDisk(t *testing.T) {
	var disk *faultfs.FS
	g := newRig(t, func(g *rig) { g.wrap = func(m *memfs.FS) vfs.FS { disk = faultfs.New(m, g.clock); return disk } }).start()
	g.mustPublish("a")
	full := disk.Add(faultfs.Rule{Ops: faultfs.Write, Path: "*.snap*", Err: syscall.ENOSPC})
	sealed := make(chan SealResult, 1)
	go func() {
		s, err := g.r.Seal(context.Background())
		if err != nil {
			t.Error(err)
		}
		sealed <- s
	}()
	for full.Hits() == 0 {
		g.tick(0)
	}
	g.mustPublish("b") // the log goes on
	full.Remove()
	if err := g.clock.AwaitPending(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	g.clock.Advance(time.Second)
	g.await(func(s State) bool { return s.SealedEnd == 2 })
	if s := <-sealed; s.SealedEnd != 2 || !s.Sealed {
		t.Errorf("sealed %+v", s)
	}
}
