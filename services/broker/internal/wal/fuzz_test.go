package wal

import (
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/proto/batch"
)

// Whatever lies in the directory, Open neither panics nor accepts a batch that is not one, and a second Open finds the same.
func FuzzOpen(f *testing.F) {
	fsys := newMem()
	l, _ := mustOpen(f, fsys, Evidence{})
	p := segmenttest.New(f)
	mustAppend(f, l, p.Data(2, 20, true), p.Data(1, 20, false))
	base := p.End
	mustAppend(f, l, p.Data(1, 20, true), p.Control(false))
	mustSync(f, l)
	if err := l.MarkSealed(0, [32]byte{}, []byte("state")); err != nil {
		f.Fatal(err)
	}
	if err := l.Close(); err != nil {
		f.Fatal(err)
	}
	name := func(part segment.Part) string { return segment.Name(base, part) }
	first := slurp(f, fsys, segment.Name(0, segment.LogPart))
	last, index := slurp(f, fsys, name(segment.LogPart)), slurp(f, fsys, name(segment.IndexPart))
	snapshot := slurp(f, fsys, segment.Name(0, segment.SnapshotPart))
	f.Add(first, last, index, snapshot, uint64(base), uint64(0))
	f.Add(first, last[:300], []byte{}, []byte{}, uint64(0), uint64(p.End))
	f.Add(first[:200], last, index, snapshot, uint64(p.End), uint64(3))
	f.Fuzz(func(t *testing.T, first, last, index, snapshot []byte, mark, hw uint64) {
		fsys := newMem()
		place(t, fsys, segment.Name(0, segment.LogPart), first)
		place(t, fsys, name(segment.LogPart), last)
		place(t, fsys, name(segment.IndexPart), index)
		place(t, fsys, segment.Name(0, segment.SnapshotPart), snapshot)
		ev := Evidence{HW: near(hw), Mark: segment.Mark{Offset: near(mark)}}
		var end, again Recovery
		for i, r := range []*Recovery{&end, &again} {
			l, got, err := Open(t.Context(), Config{FS: fsys, Dir: testDir, Tag: testTag}, ev)
			if err != nil {
				// A made-up mark may contradict a segment only once that has become the last.
				if !fault.Is(err, fault.Corrupt) || i == 1 && ev.Mark.Offset == 0 {
					t.Errorf("open %d: %v", i+1, err)
				}
				return
			}
			*r = got
			err = l.Scan(l.Start(), func(h batch.Header, msg []byte) error { return batch.CheckBody(msg) })
			if err != nil && !fault.Is(err, fault.Corrupt) {
				t.Errorf("Scan: %v", err)
			}
			if i == 1 && (again.End != end.End || again.Chain != end.Chain) {
				t.Errorf("second open: %+v, the first %+v", again, end)
			}
			l.files.Close()
		}
	})
}
