package datadir_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/datadir"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

func TestACleanDirectoryIsClean(t *testing.T) {
	d := newDisk(t)
	for _, at := range []struct{ path, kind string }{
		{dataDir, "broker"},
		{"replicas/" + replica.String(), "replica"},
		{logDir, "log"},
		{part(13, segment.LogPart), "segment"},
	} {
		for _, quick := range []bool{false, true} {
			r := d.verify(at.path, datadir.Options{Quick: quick})
			if !r.Clean() || len(r.Notes) > 0 || r.Kind != at.kind {
				t.Errorf("%s: %+v", at.path, r)
			}
			if at.kind == "segment" {
				continue
			}
			seals := 2
			if quick {
				seals = 0
			}
			if diff := cmp.Diff([]int{3, seals, 14}, []int{r.Segments, r.Seals, int(r.Batches)}); diff != "" || r.Records != 288 {
				t.Errorf("%s: %d records %s", at.path, r.Records, diff)
			}
		}
	}
}

// base of the segments of newDisk.
const first, second, last = 0, 6, 13

// position of batch i of a segment.
func (d *disk) position(base partition.Offset, i int) int {
	at := 0
	for _, size := range d.positions[base][:i] {
		at += int(size)
	}
	return at
}

func flip(at int) func([]byte) []byte {
	return func(p []byte) []byte {
		p[at] ^= 1
		return p
	}
}

// Every kind of damage is found, named by its class, and its place told.
func TestDamage(t *testing.T) {
	whole := newDisk(t)
	end := partition.Offset(whole.at.BaseOffset)
	for _, c := range []struct {
		name   string
		harm   func(d *disk)
		class  string
		file   string // ends with
		offset int64  // -1 = none
		at     int    // position
		text   string
	}{
		{
			"a bit in a sealed body", func(d *disk) { d.change(part(first, segment.LogPart), flip(d.position(0, 1)+900)) },
			"corrupt", "00000.log", 3, whole.position(0, 1), "offsets 3 to 6",
		},
		{
			"a bit in a sealed header", func(d *disk) { d.change(part(second, segment.LogPart), flip(d.position(second, 1)+40)) },
			"corrupt", "00006.log", 9, whole.position(second, 1), "offsets 9 to 10",
		},
		{"a sealed file cut short", func(d *disk) {
			d.change(part(first, segment.LogPart), func(p []byte) []byte { return p[:d.position(0, 1)] })
		}, "corrupt", "00000.log", 3, whole.position(0, 1), "offsets 3 to 6"},
		{"zeros in the middle of the last file", func(d *disk) {
			d.change(part(last, segment.LogPart), func(p []byte) []byte { clear(p[d.position(last, 2):d.position(last, 3)]); return p })
		}, "corrupt", "00013.log", 84, whole.position(last, 2), "they were durable"},
		{"the last file cut below the mark", func(d *disk) {
			_ = d.Remove(part(last, segment.IndexPart))
			d.change(part(last, segment.LogPart), func(p []byte) []byte { return p[:d.position(last, 3)] })
		}, "corrupt", "00013.log", 124, whole.position(last, 3), "the bytes are missing"},
		{"a write that was torn", func(d *disk) {
			_ = d.Remove(part(last, segment.IndexPart))
			d.change(part(last, segment.LogPart), func(p []byte) []byte { return p[:len(p)-5] })
		}, "torn", "00013.log", int64(end) - 3, whole.position(last, len(whole.positions[last])-1), "never acknowledged"},
		{"bytes behind the end", func(d *disk) {
			d.change(part(last, segment.LogPart), func(p []byte) []byte { return append(p, "garbage!"...) })
		}, "torn", "00013.log", int64(end), whole.position(last, len(whole.positions[last])), "the 8 bytes behind it"},
		{"bytes far behind the end", func(d *disk) {
			d.change(part(last, segment.LogPart), func(p []byte) []byte { return append(p, make([]byte, segment.Window+64)...) })
		}, "suspect", "00013.log", int64(end), whole.position(last, len(whole.positions[last])), "nothing proves"},
		{
			"a high watermark above the end", func(d *disk) { d.journal(journal.HW(replica, end+5)) },
			"suspect", "00013.log", int64(end), whole.position(last, len(whole.positions[last])), "below the high watermark",
		},
		{"a mark that the log contradicts", func(d *disk) {
			d.journal(journal.Mark(replica, segment.Mark{Generation: 1, Base: last, Offset: 84, Position: 8, Chain: 1}))
		}, "corrupt", "00013.log", 84, 8, "the journal's mark"},
		{"a valid batch in place of another", func(d *disk) {
			d.change(part(first, segment.LogPart), func(p []byte) []byte { return d.forge(p, d.position(0, 1)) })
		}, "corrupt", "00006.log", 6, 0, "chain"},
		{"a valid batch in place of another, by its digest", func(d *disk) {
			d.change(part(first, segment.LogPart), func(p []byte) []byte { return d.forge(p, d.position(0, 1)) })
		}, "corrupt", "00000.log", 0, 0, "not those that were sealed"},
		{"a missing file in the middle", func(d *disk) {
			_ = d.Remove(part(second, segment.LogPart))
			_ = d.Remove(part(second, segment.IndexPart))
		}, "corrupt", "00000.log", 6, whole.position(0, 2), "offsets 6 to 13"},
		{"no file at all", func(d *disk) {
			for _, base := range []partition.Offset{first, second, last} {
				_ = d.Remove(part(base, segment.LogPart))
			}
		}, "corrupt", "/log", 0, 0, "no file"},
		{"a bit in an index", func(d *disk) { d.change(part(first, segment.IndexPart), flip(30)) }, "suspect", "00000.idx", -1, 0, "cannot be used"},
		{
			"an index of another segment", func(d *disk) { d.write(part(first, segment.IndexPart), d.read(part(second, segment.IndexPart))) },
			"corrupt", "00000.idx", -1, 0, "of segment 6",
		},
		{"an index with a wrong entry", func(d *disk) {
			d.reindex(func(x *segment.Index) { x.Entries[1].Position += 8 })
		}, "corrupt", "00013.idx", 124, whole.position(last, 3) + 8, "entry 1"},
		{
			"an index with a wrong end", func(d *disk) { d.reindex(func(x *segment.Index) { x.Chain++ }) },
			"corrupt", "00013.idx", int64(end), whole.position(last, len(whole.positions[last])), "its index says",
		},
		{"a bit in a snapshot", func(d *disk) { d.change(part(first, segment.SnapshotPart), flip(200)) }, "corrupt", "00000.snap", -1, 0, "cannot be used"},
		{
			"a snapshot with another digest", func(d *disk) { d.resnap(func(s *segment.Snapshot) { s.SHA256[0]++ }) },
			"corrupt", "00000.snap", 0, 0, "the Seal in the log says",
		},
		{"a snapshot of another state", func(d *disk) {
			d.resnap(func(s *segment.Snapshot) { s.State, s.End = d.snap(second).State, d.snap(second).End })
		}, "corrupt", "00000.snap", 0, 0, "the Seal in the log says"},
		{
			"a snapshot that is no state", func(d *disk) { d.resnap(func(s *segment.Snapshot) { s.State = []byte("nonsense") }) },
			"corrupt", "00000.snap", -1, 0, "the state in the snapshot",
		},
		{"a bit in the journal", func(d *disk) { d.change(d.journalFile(), flip(100)) }, "corrupt", "02.state", -1, 64, "does not start"},
		{"a torn journal", func(d *disk) {
			d.change(d.journalFile(), func(p []byte) []byte { p[len(p)-1000] = 7; return p })
		}, "torn", "02.state", -1, 352, "nobody was answered"},
		{"no journal", func(d *disk) { _ = d.RemoveAll("journal") }, "corrupt", ":journal", -1, 0, "missing"},
		{"a bit in the identity", func(d *disk) { d.change("ident", flip(60)) }, "corrupt", ":ident", -1, 0, "identity"},
		{
			"a replica of another cluster", func(d *disk) { d.reident(cluster.String(), partition.UUIDOf(8, 8).String()) },
			"corrupt", "/ident", -1, 0, "belongs to cluster",
		},
		{"a replica of another partition", func(d *disk) { d.reident(`"partition":3`, `"partition":4`) }, "corrupt", "/ident", -1, 0, "the journal says"},
		{"no ident of a replica", func(d *disk) { _ = d.Remove("replicas/" + replica.String() + "/ident") }, "corrupt", "/ident", -1, 0, "not opened"},
		{"no directory of a replica", func(d *disk) { _ = d.RemoveAll("replicas/" + replica.String()) }, "corrupt", replica.String(), -1, 0, "its data is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := whole.copy()
			d.t = t
			c.harm(d)
			r := d.verify(dataDir, datadir.Options{})
			i := slices.IndexFunc(r.Findings, func(f datadir.Finding) bool {
				offset, at := int64(-1), 0
				if f.Offset != nil {
					offset = int64(*f.Offset)
				}
				if f.Position != nil {
					at = int(*f.Position)
				}
				return f.Class == c.class && strings.HasSuffix(f.File, c.file) && strings.Contains(f.Text, c.text) && offset == c.offset && at == c.at
			})
			if i < 0 {
				t.Errorf("want %s in %s, offset %d, position %d, %q; found:\n%s", c.class, c.file, c.offset, c.at, c.text, list(r))
			}
			if _, err := datadir.Verify(t.Context(), d.FS, dataDir, datadir.Options{Quick: true, Active: true}); err != nil {
				t.Errorf("quick, active: %v", err)
			}
		})
	}
}

func list(r *datadir.Report) string {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s %s: %s", f.Class, f.File, f.Text)
		if f.Offset != nil {
			fmt.Fprintf(&b, " (offset %d, position %d)", *f.Offset, *f.Position)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// journal adds records.
func (d *disk) journal(records ...journal.Record) {
	d.t.Helper()
	j, _, err := journal.Open(journal.Config{FS: d.FS, Dir: "journal"})
	d.must(err)
	d.must(j.Put(records...))
	d.must(j.Close())
}

// forge replaces the batch at a position by one with other records that is valid in itself.
func (d *disk) forge(p []byte, at int) []byte {
	d.t.Helper()
	h, err := batch.ParseHeader(p[at:])
	d.must(err)
	var b batch.Builder
	for range h.RecordCount {
		d.must(b.Add(batch.Record{Value: []byte(strings.Repeat("w", 900)), Timestamp: 1}))
	}
	msg, err := b.Build(nil, batch.BuildOptions{})
	d.must(err)
	batch.Stamp(msg, batch.Stamps{
		SegmentBase: h.SegmentBase, BaseOffset: h.BaseOffset, Epoch: h.Epoch, AppendTime: h.AppendTime, Chain: h.Chain,
		CommitHint: h.CommitHint, PartitionTag: h.PartitionTag,
	})
	return append(p[:at:at], msg...)
}

func (d *disk) reindex(by func(*segment.Index)) {
	d.t.Helper()
	x, err := segment.ParseIndex(d.read(part(last, segment.IndexPart)))
	d.must(err)
	by(x)
	d.write(part(last, segment.IndexPart), x.AppendTo(nil))
}

func (d *disk) snap(base partition.Offset) segment.Snapshot {
	d.t.Helper()
	s, err := segment.ParseSnapshot(d.read(part(base, segment.SnapshotPart)))
	d.must(err)
	return s
}

func (d *disk) resnap(by func(*segment.Snapshot)) {
	d.t.Helper()
	s := d.snap(first)
	by(&s)
	p, err := s.AppendTo(nil)
	d.must(err)
	d.write(part(first, segment.SnapshotPart), p)
}

func (d *disk) reident(from, to string) {
	d.change("replicas/"+replica.String()+"/ident", func(p []byte) []byte { return []byte(strings.Replace(string(p), from, to, 1)) })
}

// No bit of a directory can flip unseen.
func TestEveryByteIsCovered(t *testing.T) {
	d := newDisk(t)
	files := []string{"ident", "replicas/" + replica.String() + "/ident", d.journalFile()}
	names, err := d.List(logDir)
	d.must(err)
	for _, name := range names {
		files = append(files, logDir+"/"+name)
	}
	for _, name := range files {
		size := len(d.read(name))
		step := max(1, size/50)
		if strings.HasSuffix(name, "ident") {
			step = 7
		}
		for at := 0; at < size; at += step {
			bit := byte(1) << (at % 7)
			d.change(name, func(p []byte) []byte { p[at] ^= bit; return p })
			if r := d.verify(dataDir, datadir.Options{}); r.Clean() {
				t.Errorf("%s: bit %#x at %d of %d: not seen", name, bit, at, size)
			}
			d.change(name, func(p []byte) []byte { p[at] ^= bit; return p })
		}
	}
	if r := d.verify(dataDir, datadir.Options{}); !r.Clean() {
		t.Errorf("after all: %s", list(r))
	}
}

// Where a broker writes, an unfinished end is no damage; what was durable is.
func TestActive(t *testing.T) {
	d := newDisk(t)
	d.change(part(last, segment.LogPart), func(p []byte) []byte { return append(p, d.records(2)[:100]...) })
	r := d.verify(dataDir, datadir.Options{Active: true})
	if !r.Clean() || !r.Active || len(r.Notes) != 1 || !strings.Contains(r.Notes[0].Text, "the broker is writing there") {
		t.Errorf("%+v", r)
	}
	d.change(part(last, segment.LogPart), flip(500))
	if r := d.verify(dataDir, datadir.Options{Active: true}); r.Clean() {
		t.Error("damage below the mark is not seen")
	}
}

// A quick look reads headers only.
func TestQuick(t *testing.T) {
	d := newDisk(t)
	d.change(part(first, segment.LogPart), flip(500))
	if r := d.verify(dataDir, datadir.Options{Quick: true}); !r.Clean() {
		t.Errorf("it read a body: %s", list(r))
	}
	d.change(part(first, segment.LogPart), flip(100))
	if r := d.verify(dataDir, datadir.Options{Quick: true}); r.Clean() {
		t.Error("a bad header is not seen")
	}
}

// A segment as it lies in the bucket, with its footer, can be checked under any name.
func TestLooseFile(t *testing.T) {
	d := newDisk(t)
	x, err := segment.ParseIndex(d.read(part(first, segment.IndexPart)))
	d.must(err)
	object := d.read(part(first, segment.LogPart))
	var blocks segment.Blocks
	_, _ = blocks.Write(object)
	footer := segment.Footer{Index: x, SHA256: d.snap(first).SHA256, BlockCRCs: blocks.Sums()}
	object, err = footer.AppendTo(object)
	d.must(err)
	loose := &disk{FS: memfs.New(), t: t}
	loose.write("object", object)
	if r := loose.verify("object", datadir.Options{}); !r.Clean() || r.Batches != 3 {
		t.Errorf("%+v", r)
	}
	loose.change("object", flip(300))
	if r := loose.verify("object", datadir.Options{}); r.Clean() {
		t.Error("damage is not seen")
	}
}

func TestNothingToLookAt(t *testing.T) {
	fsys := memfs.New()
	for _, name := range []string{".", "nothing"} {
		if _, err := datadir.Verify(t.Context(), fsys, name, datadir.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	d := newDisk(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := datadir.Verify(ctx, d.FS, dataDir, datadir.Options{}); err == nil {
		t.Error("it did not stop")
	}
}
