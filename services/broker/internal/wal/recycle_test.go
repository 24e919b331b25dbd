package wal

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
)

func pooledFiles(t testing.TB, fsys vfs.FS) (*segment.Files, *pool.Pool) {
	t.Helper()
	spare, err := pool.New(fsys, "pool", pool.Limits{FileBytes: 10 << 10, PoolBytes: 200 << 10})
	if err != nil {
		t.Fatal(err)
	}
	files := segment.NewFiles(fsys, 8)
	files.Recycle(spare)
	return files, spare
}

// The file of a dropped segment becomes that of a new one: written over in place, and never read as what it was.
func TestFilesAreRecycled(t *testing.T) {
	inner := newMem()
	faulty := newFaulty(inner)
	files, spare := pooledFiles(t, faulty)
	cfg := Config{FS: faulty, Dir: testDir, Tag: testTag, Files: files}
	l, _, err := Open(t.Context(), cfg, Evidence{})
	if err != nil {
		t.Fatal(err)
	}
	p := segmenttest.New(t)
	var bases []partition.Offset
	fill := func(cut bool) {
		if cut {
			bases = append(bases, p.End)
		}
		p.HW = l.Persisted()
		mustAppend(t, l, p.Data(1, 10_000, cut))
		mustSync(t, l)
	}
	for range 3 {
		for i := range 4 {
			fill(i == 0)
		}
	}
	seal := func(base partition.Offset) {
		_, sum, err := l.Digest(base)
		if err == nil {
			err = l.MarkSealed(base, sum, []byte("state"))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seal(bases[0])
	seal(bases[1])
	held, err := l.Read(bases[0], p.End, 100) // segment 0 is being read: its file must not be written over
	if err != nil {
		t.Fatal(err)
	}
	if err := l.DropBefore(bases[2]); err != nil {
		t.Fatal(err)
	}
	if size := l.Segments()[0].Size; spare.Bytes() < size-8 || spare.Bytes() > size {
		t.Fatalf("the pool has %d bytes, want one file of %d", spare.Bytes(), size)
	}

	var allocated int
	faulty.Observe(func(c faultfs.Call) {
		if c.Op == faultfs.Allocate && strings.HasSuffix(c.Path, segment.Name(p.Base, segment.LogPart)) {
			allocated++
		}
	})
	fill(true)
	fill(false)
	faulty.Observe(nil)
	if spare.Bytes() != 0 || allocated != 0 {
		t.Errorf("the pool has %d bytes left, disk was asked for %d times", spare.Bytes(), allocated)
	}
	info, err := inner.Stat(testDir + "/" + segment.Name(p.Base, segment.LogPart))
	if err != nil || !pool.IsRecycled(info.Size) || info.Size < 40_000 {
		t.Errorf("the new file has %d bytes, %v", info.Size, err)
	}
	var old bytes.Buffer
	if _, err := held.WriteTo(&old); err != nil || old.Len() < 10_000 {
		t.Errorf("what was being read: %d bytes, %v", old.Len(), err)
	}
	held.Close()

	// What is written ends with a page: nothing of the old one has to be read.
	file, err := inner.Open(testDir+"/"+segment.Name(p.Base, segment.LogPart), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	end := l.Tail().SegmentBytes
	behind := make([]byte, -end&4095)
	if _, err := file.ReadAt(behind, end); err != nil || len(behind) == 0 || !bytes.Equal(behind, make([]byte, len(behind))) {
		t.Errorf("behind the end of %d bytes there are %x, %v", end, behind, err)
	}

	// kill -9: what lies behind the end was another segment's, and is nothing.
	for range 2 {
		again, r, err := Open(t.Context(), Config{FS: inner.CrashAll(), Dir: testDir, Tag: testTag}, Evidence{})
		if err != nil || r.Class != segment.Clean || r.End != p.End {
			t.Fatalf("after kill -9: %+v, %v", r, err)
		}
		got, err := readAll(again, bases[3], p.End, 1<<20)
		if err != nil || len(got) < 20_000 || len(got) > 21_000 {
			t.Errorf("after kill -9 %d bytes are read, %v", len(got), err)
		}
	}

	// Closed, it has its own size and its own bytes only.
	fill(true)
	info, err = inner.Stat(testDir + "/" + segment.Name(bases[3], segment.LogPart))
	if err != nil || info.Size != l.Segments()[1].Size {
		t.Errorf("closed, the file has %d bytes, %v", info.Size, err)
	}
}

// A pool outlives a restart, keeps its bound, and gives its room back.
func TestPoolIsBounded(t *testing.T) {
	fsys := newMem()
	_, spare := pooledFiles(t, fsys)
	for _, name := range []string{"a", "b", "c", "d"} {
		f, err := fsys.Open("pool/"+name, vfs.Write|vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(append(segmenttest.New(t).Data(1, 100, true), make([]byte, 80<<10)...)[:80<<10], 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
		if err := fsys.Rename("pool/"+name, "pool/0000000000000000000"+string('1'+name[0]-'a')+".free"); err != nil {
			t.Fatal(err)
		}
	}
	if f, err := fsys.Open("pool/00000000000000000009.free", vfs.Write|vfs.Create); err != nil || f.Truncate(80<<10) != nil || f.Close() != nil {
		t.Fatal(err) // nobody knows whose bytes it has
	}
	if spare.Bytes() != 0 {
		t.Errorf("a new pool has %d bytes", spare.Bytes())
	}
	_, spare = pooledFiles(t, fsys)
	names, err := fsys.List("pool")
	if err != nil || len(names) != 2 || spare.Bytes() != 2*(80<<10-7) {
		t.Errorf("the pool has %v, %d bytes, %v", names, spare.Bytes(), err)
	}
	if err := spare.Shrink(100 << 10); err != nil || spare.Bytes() != 80<<10-7 {
		t.Errorf("shrunk: %d bytes, %v", spare.Bytes(), err)
	}
	if err := spare.Shrink(0); err != nil || spare.Bytes() != 0 {
		t.Errorf("emptied: %d bytes, %v", spare.Bytes(), err)
	}
	if names, err := fsys.List("pool"); err != nil || len(names) != 0 {
		t.Errorf("emptied, it has %v, %v", names, err)
	}
}

// A file in the pool may hold the very segment that a replica of the partition writes that was made again, which would go on in old bytes. Such a
// one is not given.
func TestNoSegmentGetsItsOwnBytes(t *testing.T) {
	for _, c := range []struct {
		name      string
		tag       uint64
		from      partition.Offset // of the log
		recycles  bool
		restarted bool
	}{
		{"a segment behind it", testTag, 3, true, false},
		{"the same segment", testTag, 0, false, false},
		{"the same segment, after a restart", testTag, 0, false, true},
		{"the same offsets of another partition", testTag + 1, 0, true, false},
		{"the same offsets of another partition, after a restart", testTag + 1, 0, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := newMem()
			files, spare := pooledFiles(t, fsys)
			old := segmenttest.New(t)
			dropFirst(t, fsys, files, old)
			if spare.Bytes() == 0 {
				t.Fatal("nothing is in the pool")
			}
			if c.restarted {
				files, spare = pooledFiles(t, fsys)
			}
			before := spare.Bytes()
			o, err := segment.Create(files, ".", c.from, c.tag, 0, before)
			if err != nil {
				t.Fatal(err)
			}
			o.Abandon()
			if recycled := spare.Bytes() < before; recycled != c.recycles {
				t.Errorf("recycled: %v", recycled)
			}
		})
	}
}

// dropFirst writes two segments of a log, and drops the first, [0, 3).
func dropFirst(t *testing.T, fsys vfs.FS, files *segment.Files, p *segmenttest.Leader) {
	t.Helper()
	l, _, err := Open(t.Context(), Config{FS: fsys, Dir: testDir, Tag: testTag, Files: files}, Evidence{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		mustAppend(t, l, p.Data(1, 10_000, i%3 == 0))
	}
	mustSync(t, l)
	_, sum, err := l.Digest(0)
	if err == nil {
		err = l.MarkSealed(0, sum, nil)
	}
	if err == nil {
		err = l.DropBefore(3)
	}
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
