package commit

import (
	"errors"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

// A recycled file has the bytes of a dropped segment, whose redo is still in the ring. Neither comes back, and the redo of what was written
// into it since does.
func TestRedoAndRecycledFiles(t *testing.T) {
	fsys := memfs.New()
	w := newWorld(t, Always, 2)
	if err := w.open(fsys); err != nil {
		t.Fatal(err)
	}
	a, b := w.logs[0], w.logs[1]
	write := func(size int, cut bool) {
		t.Helper()
		if err := a.append(size, cut); err != nil {
			t.Fatal(err)
		}
		if err := b.append(100, false); err != nil {
			t.Fatal(err)
		}
		if err := w.commit(a, b); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		write(1500, true)
		write(1500, false)
		write(1500, false)
	}
	// What a restart leaves of the segments so far is in files; what comes now, in the ring only.
	if err := a.log.Sync(); err != nil {
		t.Fatal(err)
	}
	a.leader.HW = a.acked
	for _, s := range a.log.Segments()[:1] {
		_, sum, err := a.log.Digest(s.Base)
		if err == nil {
			err = a.log.MarkSealed(s.Base, sum, []byte("state"))
		}
		if err == nil {
			a.sealed, a.dropped = s.End, s.End
			err = a.log.DropBefore(s.End)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The first batch is never in the ring: old redo would destroy what no redo brings back.
	if err := errors.Join(a.append(900, true), a.log.Sync(), w.saveMarks()); err != nil {
		t.Fatal(err)
	}
	write(900, false)
	name := dirOf(a.id) + "/" + segment.Name(a.leader.Base, segment.LogPart)
	if info, err := fsys.Stat(name); err != nil || !pool.IsRecycled(info.Size) {
		t.Fatalf("the new segment is not in a recycled file: %+v, %v", info, err)
	}
	stale, fresh := 0, 0
	for _, r := range redoOf(t, w, fsys.CrashNone()) {
		switch {
		case r.Replica != a.id:
		case r.Base == a.leader.Base:
			fresh++
		case r.Base < a.log.Start():
			stale++
		}
	}
	if stale == 0 || fresh == 0 {
		t.Fatalf("the ring has %d copies of the segment that was dropped and %d of the new one", stale, fresh)
	}
	for i, crashed := range survivors(fsys, 1, 50) {
		if err := w.check(crashed); err != nil {
			t.Errorf("state %d: %v", i, err)
		}
	}
}

// redoOf reads what the ring holds after a crash.
func redoOf(t *testing.T, w *world, fsys *memfs.FS) []found {
	t.Helper()
	s := w.snapshot()
	j, _, err := s.openJournal(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var out []found
	for _, r := range j.Redo() {
		out = append(out, found{r.Replica, r.Base})
	}
	return out
}

type found struct {
	Replica partition.UUID
	Base    partition.Offset
}
