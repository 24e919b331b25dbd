package sealed

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// log is a table with the offset of the next control batch.
type log struct {
	t    *testing.T
	next partition.Offset
	*Table
}

func newLog(t *testing.T) *log { return &log{t: t, next: 1000, Table: &Table{}} }

// add commits a control batch; twice, since a fold may see it again.
func (l *log) add(fill func(batchcapnp.Control) error) {
	l.t.Helper()
	_, seg := capnp.NewSingleSegmentMessage(nil)
	c, err := batchcapnp.NewRootControl(seg)
	if err == nil {
		err = fill(c)
	}
	if err != nil {
		l.t.Fatal(err)
	}
	l.next++
	if err := l.Apply(c, l.next); err != nil {
		l.t.Fatal(err)
	}
	once := encoded(l.t, l.Table)
	version := l.Version()
	if err := l.Apply(c, l.next+500); err != nil {
		l.t.Fatal(err)
	}
	if !bytes.Equal(once, encoded(l.t, l.Table)) || l.Version() != version {
		l.t.Fatalf("%s a second time changed the table", c.Which())
	}
}

func (l *log) seal(base, end partition.Offset) {
	l.add(func(c batchcapnp.Control) error { return FillSealControl(c, sealOf(base, end)) })
}

func sealOf(base, end partition.Offset) Seal {
	return Seal{Base: base, End: end, Size: uint64(end-base) * 10, SHA256: Digest{byte(base), byte(end)}}
}

func segmentOf(base, end partition.Offset) Segment {
	s := sealOf(base, end)
	return Segment{Base: base, End: end, Epoch: 1, Size: s.Size, ObjectSize: s.Size + 9, SHA256: s.SHA256, Key: keyOf(base, end), LastAppendTime: int64(end)}
}

func keyOf(base, end partition.Offset) string {
	return fmt.Sprintf("cluster/t/topic/0/%020d-%020d-1-ab.seg", base, end)
}

func (l *log) commitTier(segments ...Segment) {
	l.add(func(c batchcapnp.Control) error { return FillCommit(c, segments) })
}

func (l *log) trimTo(to partition.Offset) {
	l.add(func(c batchcapnp.Control) error { return FillTrim(c, to) })
}

func (l *log) dropKeys(notBefore int64, keys ...string) {
	l.add(func(c batchcapnp.Control) error { return FillDrop(c, keys, notBefore) })
}

func (l *log) collectKeys(keys ...string) {
	l.add(func(c batchcapnp.Control) error { return FillCollect(c, keys) })
}

func encoded(t *testing.T, table *Table) []byte {
	t.Helper()
	m, seg := capnp.NewSingleSegmentMessage(nil)
	out, err := batchcapnp.NewRootSnapshot(seg)
	if err == nil {
		err = table.Fill(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	out.SetEnd(5000)
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestTable(t *testing.T) {
	l := newLog(t)
	l.seal(0, 10)
	l.seal(10, 20)
	l.seal(20, 30)
	if l.Version() != 0 || l.SealedEnd() != 30 || l.TierEnd() != 0 {
		t.Fatalf("seals alone: version %d, sealed %d, tiered %d", l.Version(), l.SealedEnd(), l.TierEnd())
	}
	l.commitTier(segmentOf(0, 10), segmentOf(10, 20))
	if diff := cmp.Diff([]Seal{sealOf(20, 30)}, l.Seals()); diff != "" || l.TierEnd() != 20 || l.Version() != uint64(l.next) {
		t.Errorf("after a commit: tiered %d, version %d (-want +got):\n%s", l.TierEnd(), l.Version(), diff)
	}
	got, more := l.Tiered(5, 1)
	if diff := cmp.Diff([]Segment{segmentOf(0, 10)}, got); diff != "" || !more {
		t.Errorf("a part of the table, more %t (-want +got):\n%s", more, diff)
	}
	// A seal out of order seals nothing.
	l.seal(40, 50)
	if l.SealedEnd() != 30 {
		t.Errorf("sealed up to %d by a seal out of order", l.SealedEnd())
	}
	// The log start passes the first segment, and half of the second.
	l.trimTo(15)
	if diff := cmp.Diff([]string{keyOf(0, 10)}, l.Droppable()); diff != "" {
		t.Errorf("droppable (-want +got):\n%s", diff)
	}
	l.dropKeys(77, l.Droppable()...)
	dropped := l.Version()
	for _, c := range []struct {
		now      int64
		exported uint64
		want     []string
	}{
		{76, dropped, nil}, {77, dropped - 1, nil}, {77, dropped, []string{keyOf(0, 10)}},
	} {
		if diff := cmp.Diff(c.want, l.Collectable(c.now, c.exported, 9)); diff != "" {
			t.Errorf("collectable at %d with version %d exported (-want +got):\n%s", c.now, c.exported, diff)
		}
	}
	l.collectKeys(keyOf(0, 10), "an orphan")
	if got := l.Collectable(100, dropped, 9); got != nil {
		t.Errorf("collected, and still collectable: %v", got)
	}
	if got := l.TieredFrom(0); len(got) != 1 || got[0].Base != 10 {
		t.Errorf("table %+v", got)
	}
	// What the trim passes before it is tiered, the bucket never gets.
	l.trimTo(35)
	l.seal(30, 40)
	if diff := cmp.Diff([]Seal{sealOf(30, 40)}, l.Seals()); diff != "" || l.TierEnd() != 30 {
		t.Errorf("trimmed before tiered: tier end %d (-want +got):\n%s", l.TierEnd(), diff)
	}
	l.trimTo(45)
	l.seal(40, 45)
	if got := l.Seals(); len(got) != 0 || l.TierEnd() != 45 {
		t.Errorf("sealed below the log start: %+v, tier end %d", got, l.TierEnd())
	}
}

func TestCheckCommit(t *testing.T) {
	l := newLog(t)
	l.seal(0, 10)
	l.seal(10, 20)
	l.seal(20, 30)
	l.commitTier(segmentOf(0, 10))
	l.collectKeys("collected")
	otherBytes, otherKey, collected := segmentOf(10, 20), segmentOf(0, 10), segmentOf(10, 20)
	otherBytes.SHA256[0]++
	otherKey.Key = "x"
	collected.Key = "collected"
	for _, c := range []struct {
		name     string
		segments []Segment
		fresh    int
		kind     fault.Kind // 0 = success
	}{
		{"the next", []Segment{segmentOf(10, 20)}, 1, 0},
		{"the next two", []Segment{segmentOf(10, 20), segmentOf(20, 30)}, 2, 0},
		{"the same again, and the next", []Segment{segmentOf(0, 10), segmentOf(10, 20)}, 1, 0},
		{"the same again", []Segment{segmentOf(0, 10)}, 0, 0},
		{"none", nil, 0, fault.Invalid},
		{"a gap", []Segment{segmentOf(20, 30)}, 0, fault.Conflict},
		{"not sealed", []Segment{segmentOf(10, 20), segmentOf(20, 30), segmentOf(30, 40)}, 0, fault.Conflict},
		{"other bounds", []Segment{segmentOf(10, 30)}, 0, fault.Corrupt},
		{"other bytes", []Segment{otherBytes}, 0, fault.Corrupt},
		{"tiered under another key", []Segment{otherKey}, 0, fault.Conflict},
		{"a collected key", []Segment{collected}, 0, fault.Conflict},
		{"no key", []Segment{{Base: 10, End: 20}}, 0, fault.Invalid},
	} {
		fresh, err := l.CheckCommit(c.segments)
		if len(fresh) != c.fresh || c.kind != 0 && !fault.Is(err, c.kind) || c.kind == 0 && err != nil {
			t.Errorf("%s: %d fresh, %v", c.name, len(fresh), err)
		}
	}
	if _, err := l.CheckCollect([]string{keyOf(0, 10)}); !fault.Is(err, fault.Conflict) {
		t.Errorf("collect what the table names: %v", err)
	}
	// An orphan of what the bucket has already needs no record, one of what it may get yet does, until then.
	orphan := keyOf(10, 20) + "2"
	if fresh, err := l.CheckCollect([]string{orphan, "collected", keyOf(0, 10) + "2"}); err != nil || len(fresh) != 1 || fresh[0] != orphan {
		t.Errorf("collect: %v %v", fresh, err)
	}
	l.collectKeys(orphan)
	refused := segmentOf(10, 20)
	refused.Key = orphan
	if _, err := l.CheckCommit([]Segment{refused}); !fault.Is(err, fault.Conflict) {
		t.Errorf("commit of what was collected: %v", err)
	}
	l.commitTier(segmentOf(10, 20))
	if len(l.collected) != 1 {
		t.Errorf("remembers %v", l.collected)
	}
}

// A table that is read back is the same, but for its version, which may only have grown.
func TestSnapshot(t *testing.T) {
	l := newLog(t)
	l.seal(0, 10)
	l.seal(10, 20)
	l.seal(20, 30)
	l.commitTier(segmentOf(0, 10), segmentOf(10, 20))
	l.trimTo(12)
	l.dropKeys(5, keyOf(0, 10))
	l.collectKeys("orphan 2", "orphan 1")
	data := encoded(t, l.Table)
	m, err := capnp.Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	in, err := batchcapnp.ReadRootSnapshot(m)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Load(in)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(data, encoded(t, got)) {
		t.Error("a table that was read back writes other bytes")
	}
	if got.Version() < l.Version() || got.SealedEnd() != 30 || got.LogStart() != 12 {
		t.Errorf("version %d after %d, sealed %d, log start %d", got.Version(), l.Version(), got.SealedEnd(), got.LogStart())
	}
	if c := got.Collectable(5, got.Version(), 9); len(c) != 1 {
		t.Errorf("collectable %v", c)
	}
}

// A Seal is proposed in order, with its digest, and only when the segment's end is at or below the high watermark (R13).
func TestClosing(t *testing.T) {
	var c Closing
	c.Add(20, 30) // a new leader's first batch may cut before it looks for what is closed
	c.Add(0, 10)
	c.Add(10, 20)
	c.Add(10, 20)
	if _, _, ok := c.Digest(10); ok {
		t.Error("a digest before the batch behind the segment is written")
	}
	digest := func(written, base partition.Offset) {
		t.Helper()
		if got, _, ok := c.Digest(written); !ok || got != base {
			t.Fatalf("digest of %d %t, want %d", got, ok, base)
		}
	}
	var sealedEnd partition.Offset
	propose := func(hw, at, base partition.Offset, want bool) {
		t.Helper()
		if got, ok := c.Propose(sealedEnd, hw, at); ok != want || ok && got.Base != base {
			t.Fatalf("propose at high watermark %d: %+v %t, want %d %t", hw, got, ok, base, want)
		}
	}
	digest(31, 0)
	digest(31, 10)
	c.Digested(sealOf(10, 20))
	propose(31, 31, 0, false) // the first has no digest yet
	c.Digested(sealOf(0, 10))
	propose(9, 31, 0, false) // R13
	propose(10, 31, 0, true)
	propose(19, 32, 0, false) // R13
	propose(20, 32, 10, true)
	// The log is cut below the second Seal, then below the second segment's end.
	c.Cut(32)
	propose(31, 40, 10, true)
	propose(31, 41, 20, false)
	c.Cut(15)
	if c.End() != 10 {
		t.Errorf("closed up to %d after the cut", c.End())
	}
	propose(31, 42, 0, true)
	sealedEnd = 10
	c.Sealed(10)
	if c.End() != 0 {
		t.Errorf("up to %d wait", c.End())
	}
	// One whose predecessor is not sealed, nor in the queue, is not proposed: the log would have a hole.
	c.Add(20, 30)
	digest(31, 20)
	c.Digested(sealOf(20, 30))
	propose(40, 50, 20, false)
	sealedEnd = 20
	propose(40, 50, 20, true)
}

func TestRetention(t *testing.T) {
	hour := time.Hour.Microseconds()
	pieces := []Piece{{0, 10, 100, 1 * hour}, {10, 20, 100, 2 * hour}, {20, 30, 100, 3 * hour}}
	for _, c := range []struct {
		name string
		r    Retention
		open int64
		now  int64
		want partition.Offset
	}{
		{"for ever", Retention{}, 0, 100 * hour, 0},
		{"nothing is old", Retention{Time: 5 * time.Hour}, 0, 6 * hour, 0},
		{"one is old", Retention{Time: 5 * time.Hour}, 0, 6*hour + 1, 10},
		{"all are old", Retention{Time: time.Hour}, 0, 10 * hour, 30},
		{"by size, counting the open one", Retention{Bytes: 250}, 50, 0, 10},
		{"by size, exactly", Retention{Bytes: 200}, 0, 0, 10},
		{"by size, not quite", Retention{Bytes: 201}, 0, 0, 0},
		{"either", Retention{Time: 5 * time.Hour, Bytes: 100}, 0, 6*hour + 1, 20},
	} {
		if got := c.r.LogStart(pieces, c.open, c.now); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		name     string
		l        Local
		exported partition.Offset
		now      int64
		want     partition.Offset
	}{
		{"default, young and small", Local{}, 30, 3*hour + 1, 20},
		{"nothing exported", Local{}, 0, 100 * hour, 0},
		{"only what is exported", Local{}, 20, 100 * hour, 20},
		{"half a segment is exported", Local{}, 15, 100 * hour, 10},
		{"size alone", Local{Bytes: 150}, 30, 100 * hour, 10},
	} {
		if got := c.l.Start(pieces, 0, c.now, c.exported); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// A Compact changes what the Seal says of a segment that the bucket does not have, to fewer bytes, and nothing else.
func TestCompact(t *testing.T) {
	l := newLog(t)
	l.seal(0, 5)
	l.seal(5, 9)
	l.seal(9, 12)
	l.commitTier(segmentOf(0, 5))
	version := l.Version()
	compact := func(s Seal) { l.add(func(c batchcapnp.Control) error { return FillCompact(c, s) }) }
	smaller := func(base, end partition.Offset, by uint64) Seal {
		s := sealOf(base, end)
		s.Size, s.SHA256 = s.Size-by, Digest{99}
		return s
	}
	for _, refused := range []Seal{smaller(0, 5, 1), smaller(5, 12, 1), smaller(9, 12, 0), smaller(12, 20, 1)} {
		if err := l.CheckCompact(refused); !fault.Is(err, fault.Conflict) {
			t.Errorf("compact %+v: %v", refused, err)
		}
		compact(refused)
	}
	if diff := cmp.Diff([]Seal{sealOf(5, 9), sealOf(9, 12)}, l.Seals()); diff != "" {
		t.Fatalf("refused ones changed something:\n%s", diff)
	}
	if err := l.CheckCompact(smaller(5, 9, 7)); err != nil {
		t.Fatal(err)
	}
	compact(smaller(5, 9, 7))
	if diff := cmp.Diff([]Seal{smaller(5, 9, 7), sealOf(9, 12)}, l.Seals()); diff != "" || l.Version() != version {
		t.Errorf("version %d, was %d:\n%s", l.Version(), version, diff)
	}
	if _, err := l.CheckCommit([]Segment{segmentOf(5, 9)}); !fault.Is(err, fault.Conflict) {
		t.Errorf("commit what it was before: %v", err)
	}
	after := segmentOf(5, 9)
	after.Size, after.SHA256 = smaller(5, 9, 7).Size, Digest{99}
	if fresh, err := l.CheckCommit([]Segment{after}); err != nil || len(fresh) != 1 {
		t.Errorf("commit what it is now: %v", err)
	}
}
