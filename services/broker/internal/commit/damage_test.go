package commit

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/replay"
)

const ringFile = "journal/redo.ring"

// journaled makes a world with groups in its ring that no file holds durably, one a round but the first, and says where the last one begins.
func journaled(t *testing.T, rounds, size int) (w *world, inner *memfs.FS, used, last int) {
	t.Helper()
	inner = memfs.New()
	w = newWorld(t, Always, 3)
	if err := w.open(inner); err != nil {
		t.Fatal(err)
	}
	for round := range rounds {
		var group []*list
		for i, l := range w.logs {
			if round > 0 && i == round%3 {
				continue // each group has two of the three
			}
			if err := l.append(size+round, false); err != nil {
				t.Fatal(err)
			}
			group = append(group, l)
		}
		before, _ := w.used()
		if err := w.commit(group...); err != nil {
			t.Fatal(err)
		}
		if after, _ := w.used(); after > before {
			last = before
		}
	}
	used, _ = w.used()
	if used < 5*4096 || last == 0 {
		t.Fatalf("%d bytes of the ring are used, the last group begins at %d", used, last)
	}
	return w, inner, used, last
}

func (w *world) used() (used, size int) {
	if w.c.mu.ring == nil {
		return 0, 0
	}
	u, s := w.c.mu.ring.Used()
	return int(u), int(s)
}

// damage changes bytes of the ring durably.
func damage(t *testing.T, fsys vfs.FS, at int, change func(p []byte), n int) {
	t.Helper()
	f, err := fsys.Open(ringFile, vfs.Write)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, n)
	if _, err := f.ReadAt(p, int64(at)); err != nil {
		t.Fatal(err)
	}
	change(p)
	if _, err := f.WriteAt(p, int64(at)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
}

// Damage to one place of the ring loses nothing that the files hold. What they do not hold is lost only where it is hit and told as corrupt,
// unless it is of the last group, which cannot be told from a torn write; a damaged header loses nothing.
func TestDamageOfTheRing(t *testing.T) {
	w, inner, used, last := journaled(t, 6, 300)
	stride := 61
	if sample().workloads > 2 {
		stride = 1
	}
	for bit := 0; bit < 8*used; bit += stride {
		at := bit / 8
		flip := func(p []byte) { p[0] ^= 1 << (bit % 8) }
		w.checkDamage(t, fmt.Sprintf("bit %d at %d", bit%8, at), 1, at >= last, inner, func(fsys vfs.FS) { damage(t, fsys, at, flip, 1) })
	}
	for at := 0; at < used; at += 512 {
		w.checkDamage(t, fmt.Sprintf("sector at %d", at), 2, at >= last, inner, func(fsys vfs.FS) {
			damage(t, fsys, at, func(p []byte) { clear(p) }, 512)
		})
	}
}

func (w *world) checkDamage(t *testing.T, what string, most int, inLast bool, inner *memfs.FS, harm func(vfs.FS)) {
	t.Helper()
	held := inner.CrashAll()
	harm(held)
	if err := w.snapshot().open(held); err != nil {
		t.Fatalf("%s, and the files hold everything: %v", what, err)
	}
	lost := inner.CrashNone()
	harm(lost)
	s := w.snapshot()
	s.lax = true
	if err := s.open(lost); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	affected := 0
	for i, l := range s.logs {
		faults := l.log.Faults()
		for _, b := range l.batches {
			if l.has(b) {
				continue
			}
			switch {
			case !inLast && !covered(faults, b):
				t.Fatalf("%s: log %d lost offset %d and does not say so: %+v", what, i, baseOf(b), faults)
			case inLast && baseOf(b) != baseOf(l.batches[len(l.batches)-1]):
				t.Fatalf("%s: log %d lost offset %d, which is not of the last group", what, i, baseOf(b))
			}
			affected++
		}
	}
	if affected > most && !inLast {
		t.Fatalf("%s: %d batches are lost", what, affected)
	}
}

func covered(faults []segment.Range, msg []byte) bool {
	for _, f := range faults {
		if f.Contains(baseOf(msg)) {
			return true
		}
	}
	return false
}

// has tells whether the log gives a batch back as it was.
func (l *list) has(msg []byte) bool {
	chunk, err := l.log.Read(baseOf(msg), baseOf(msg)+1, 1)
	if err != nil {
		return false
	}
	defer chunk.Close()
	var out bytes.Buffer
	_, err = chunk.WriteTo(&out)
	return err == nil && bytes.Equal(out.Bytes(), msg)
}

// Where a header and its copy are both damaged, nobody knows what was in the group: the disk is refused, and its files are left alone.
func TestDamageOfTwoHeadersIsRefused(t *testing.T) {
	w, inner, _, _ := journaled(t, 6, 300)
	lost := inner.CrashNone()
	damage(t, lost, 4096, func(p []byte) { clear(p) }, 2*4096)
	if err := w.snapshot().open(lost); !fault.Is(err, fault.Corrupt) {
		t.Fatalf("open: %v", err)
	}
}

// Redo of a generation that the state does not know of says that the state has lost records.
func TestRedoOfTheFutureIsRefused(t *testing.T) {
	fsys := memfs.New()
	c := replay.Copy{Redo: segment.Redo{Generation: 2, Offset: 1, End: 2, Length: 8}}
	if _, err := replay.Log(fsys, "log", segment.Mark{Generation: 1}, []replay.Copy{c}); !fault.Is(err, fault.Corrupt) {
		t.Fatalf("replay: %v", err)
	}
}

// A copy that the ring has lost, of bytes whose sync failed: the page cache shows them, no platter has them. They are written again.
func TestLostRedoIsWrittenFromTheFile(t *testing.T) {
	w, inner, _, _ := journaled(t, 3, 7000) // so that no other copy is of the same pages
	for _, l := range w.logs {
		f, err := inner.Open(dirOf(l.id)+"/"+segment.Name(0, segment.LogPart), vfs.Write)
		if err != nil {
			t.Fatal(err)
		}
		if lossy, ok := f.(*memfs.File); ok {
			lossy.FailSync()
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	damage(t, inner, 400, func(p []byte) { p[0] ^= 1 }, 1) // bytes of the first group
	s := w.snapshot()
	if err := s.open(inner); err != nil {
		t.Fatalf("restart: %v", err)
	}
	if err := s.check(inner.CrashNone()); err != nil {
		t.Fatalf("restart, then a power cut: %v", err)
	}
}
