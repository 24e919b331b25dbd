package wal

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
)

// shrunk is a log of sealed segments and what compaction makes of each: the first batch spans the offsets of all behind it that are not kept.
type shrunk struct {
	bases    []partition.Offset
	old, new [][][]byte // by segment
	sums     [][32]byte // of new, once it is made
	// committed is how many segments have a compacted file that is durable, so that a log could name it.
	committed int
	end       partition.Offset
	mark      segment.Mark
}

func newShrunk(t testing.TB, fsys vfs.FS, segments int) (*shrunk, *Log) {
	t.Helper()
	l, _ := mustOpen(t, fsys, Evidence{})
	leader := segmenttest.New(t)
	s := &shrunk{sums: make([][32]byte, segments)}
	for i := range segments + 1 {
		s.bases = append(s.bases, leader.End)
		old := [][]byte{leader.Data(2, 300, true), leader.Data(3, 500, false), leader.Control(false), leader.Data(2, 700, false), leader.Data(1, 90, false)}
		mustAppend(t, l, old...)
		if i == segments {
			break
		}
		first, third := leader.Header(old[1]), leader.Header(old[4])
		// The segment begins with a gap where i is odd, and ends with a rewritten batch where it is even.
		now := [][]byte{bytes.Clone(old[0]), old[2], bytes.Clone(old[3])}
		if i%2 == 1 {
			now[0] = batch.BuildGap(nil, leader.Header(old[0]).Stamps(), uint32(first.NextOffset()-1-uint64(s.bases[i])))
			now = [][]byte{now[0], old[2], old[3], old[4]}
		} else {
			batch.Widen(now[0], uint32(first.NextOffset()-1-uint64(s.bases[i])))
			batch.Widen(now[2], uint32(third.NextOffset()-1-leader.Header(old[3]).BaseOffset))
		}
		s.old, s.new = append(s.old, old), append(s.new, now)
	}
	mustSync(t, l)
	for i := range segments {
		_, sum, err := l.Digest(s.bases[i])
		if err == nil {
			err = l.MarkSealed(s.bases[i], sum, fmt.Appendf(nil, "state at %d", s.bases[i+1]))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s.end, s.mark = l.End(), l.Mark()
	return s, l
}

// make writes the compacted file of a segment, durably.
func (s *shrunk) make(l *Log, i int) error {
	c, err := l.Compacted(s.bases[i])
	if err != nil {
		return err
	}
	for _, msg := range s.new[i] {
		if err := c.Append(msg); err != nil {
			return err
		}
	}
	_, sum, err := c.Finish()
	if err == nil {
		s.sums[i], s.committed = sum, i+1
	}
	return err
}

func (s *shrunk) install(l *Log, i int) error {
	x, err := l.CheckCompacted(s.bases[i], int64(len(bytes.Join(s.new[i], nil))), s.sums[i])
	if err != nil {
		return err
	}
	return l.InstallCompacted(x, s.sums[i])
}

// check recovers what a crash left: each segment is the old one or the new one. What is committed is then finished, and the rest is discarded.
func (s *shrunk) check(t testing.TB, fsys vfs.FS) error {
	for round := range 2 {
		l, r, err := Open(t.Context(), Config{FS: fsys, Dir: testDir, Tag: testTag}, Evidence{Mark: s.mark})
		if err != nil {
			return err
		}
		if r.Class != segment.Clean || r.End != s.end || r.SnapshotEnd != s.bases[len(s.old)] {
			return fmt.Errorf("open %d: class %s, end %d, snapshot of %d", round+1, r.Class, r.End, r.SnapshotEnd)
		}
		if err := s.compare(l, round > 0); err != nil {
			return fmt.Errorf("open %d: %w", round+1, err)
		}
		for i := range s.committed {
			if err := s.install(l, i); err != nil {
				return fmt.Errorf("open %d: install %d: %w", round+1, i, err)
			}
		}
		if err := l.DiscardCompacted(); err != nil {
			return err
		}
		if err := s.compare(l, true); err != nil {
			return fmt.Errorf("after open %d: %w", round+1, err)
		}
		l.files.Close() // as after kill -9
	}
	return nil
}

// compare reads every segment. finished: those that are committed are the new ones, and their digest is known.
func (s *shrunk) compare(l *Log, finished bool) error {
	infos := l.Segments()
	for i := range s.old {
		end := s.bases[i+1]
		got, err := readAll(l, s.bases[i], end, 1000)
		if err != nil {
			return err
		}
		before, now := bytes.Join(s.old[i], nil), bytes.Join(s.new[i], nil)
		replaced := bytes.Equal(got, now)
		switch {
		case !replaced && !bytes.Equal(got, before):
			return fmt.Errorf("segment %d is neither the old nor the new one", i)
		case replaced && i >= s.committed, finished && !replaced && i < s.committed:
			return fmt.Errorf("segment %d is replaced: %v, %d are committed", i, replaced, s.committed)
		case infos[i].Size != int64(len(got)):
			return fmt.Errorf("segment %d has %d bytes, it says %d", i, len(got), infos[i].Size)
		case finished && replaced && infos[i].SHA256 != s.sums[i]:
			return fmt.Errorf("segment %d has the digest %x", i, infos[i].SHA256)
		}
		for o := s.bases[i]; o < end; o++ {
			if h, err := l.At(o); err != nil || h.BaseOffset > uint64(o) || h.NextOffset() <= uint64(o) {
				return fmt.Errorf("offset %d is in batch %d: %w", o, h.BaseOffset, err)
			}
		}
	}
	return nil
}

// Power fails before every operation of making and installing compacted segments, and before every operation of what finishes that.
func TestCrashWhileCompacting(t *testing.T) {
	tried := 0
	inner := newMem()
	faulty := newFaulty(inner)
	s, l := newShrunk(t, faulty, 2)
	at := func(c faultfs.Call) {
		if c.Op&(faultfs.Read|faultfs.List|faultfs.Stat) != 0 {
			return
		}
		for i, crashed := range survivors(inner, uint64(c.Number), 2+sample().states) {
			tried++
			again := crashed.CrashAll()
			if err := s.check(t, crashed); err != nil {
				t.Fatalf("state %d, crash before operation %d (%+v): %v", i, c.Number, c, err)
			}
			if tried%71 == 0 || sample().full {
				tried += s.crashAgain(t, again, c.Number)
			}
		}
	}
	faulty.Observe(at)
	for i := range s.old {
		if err := s.make(l, i); err != nil {
			t.Fatal(err)
		}
		if err := s.install(l, i); err != nil {
			t.Fatal(err)
		}
	}
	faulty.Observe(nil)
	if err := s.compare(l, true); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crash states", tried)
}

func (s *shrunk) crashAgain(t testing.TB, inner *memfs.FS, number int) (tried int) {
	t.Helper()
	faulty := newFaulty(inner)
	faulty.Observe(func(c faultfs.Call) {
		if c.Op&(faultfs.Read|faultfs.List|faultfs.Stat) != 0 {
			return
		}
		for _, crashed := range survivors(inner, uint64(c.Number), 1) {
			tried++
			if err := s.check(t, crashed); err != nil {
				t.Fatalf("crash before operation %d, then before operation %d (%+v) of what finishes it: %v", number, c.Number, c, err)
			}
		}
	})
	if err := s.check(t, faulty); err != nil {
		t.Fatalf("crash before operation %d: %v", number, err)
	}
	return tried
}

// A disk that fails or is full while a segment is compacted leaves the old one or the new one; a full one is no end.
func TestFaultWhileCompacting(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for n := 1; ; n++ {
			inner := newMem()
			faulty := newFaulty(inner)
			s, l := newShrunk(t, faulty, 2)
			rule := faulty.Add(faultfs.Rule{Ops: faultfs.Any &^ (faultfs.Read | faultfs.List | faultfs.Stat), First: n, Count: 1, Err: errno, Short: n % 700})
			err := s.make(l, 0)
			if err == nil {
				err = s.install(l, 0)
			}
			rule.Remove()
			if rule.Hits() == 0 {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if err := s.compare(l, false); err != nil {
				t.Fatalf("operation %d, %v: %v", n, errno, err)
			}
			if l.Err() == nil {
				err := s.make(l, 0)
				if err == nil {
					err = s.install(l, 0)
				}
				if err != nil {
					t.Fatalf("operation %d: after there is room again: %v", n, err)
				}
			}
			if err := s.check(t, inner.CrashAll()); err != nil {
				t.Fatalf("operation %d, %v: %v", n, errno, err)
			}
		}
	}
}

// Who reads while segments are replaced gets the batches of one or the other file, whole, and never an error; a chunk that was taken before stays
// what it was.
func TestReadWhileCompacting(t *testing.T) {
	s, l := newShrunk(t, newMem(), 40)
	held, err := l.Read(s.bases[0], s.end, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for i := range 3 {
		readers.Go(func() {
			for n := i; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				k := n % len(s.old)
				got, err := readAll(l, s.bases[k], s.bases[k+1], 300)
				if err != nil {
					t.Errorf("read segment %d: %v", k, err)
					return
				}
				if err := covers(got, s.bases[k], s.bases[k+1]); err != nil {
					t.Errorf("read segment %d: %v", k, err)
					return
				}
				if _, err := l.OffsetAt(int64(1000+50*k), s.end); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range s.old {
		if err := s.make(l, i); err != nil {
			t.Fatal(err)
		}
		if err := s.install(l, i); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	readers.Wait()
	got := make([]byte, held.Len())
	if n, err := held.ReadAt(got, 0); n != len(got) || !bytes.Equal(got, bytes.Join(s.old[0], nil)) {
		t.Errorf("a chunk from before has other bytes: %d, %v", n, err)
	}
	if err := held.Close(); err != nil {
		t.Error(err)
	}
	if err := s.compare(l, true); err != nil {
		t.Error(err)
	}
	if n := len(s.old); l.files.Open() > n {
		t.Errorf("%d files are open", l.files.Open())
	}
}

// covers sees that batches are whole and go from one offset to another without a gap. A reader that goes on in a new file may get a batch again.
func covers(body []byte, from, to partition.Offset) error {
	next := from
	for msg, err := range batch.Each(body) {
		if err == nil {
			err = batch.CheckBody(msg)
		}
		if err != nil {
			return err
		}
		h, err := batch.ParseHeader(msg)
		if err != nil {
			return err
		}
		if partition.Offset(h.BaseOffset) > next {
			return fmt.Errorf("batch %d, want %d", h.BaseOffset, next)
		}
		next = max(next, partition.Offset(h.NextOffset()))
	}
	if next != to {
		return fmt.Errorf("it ends at %d, want %d", next, to)
	}
	return nil
}

// What does not belong to the segment is not installed, and a segment that may still change is not compacted.
func TestCompactRefuses(t *testing.T) {
	s, l := newShrunk(t, newMem(), 2)
	if _, err := l.Compacted(s.bases[2]); !fault.Is(err, fault.Conflict) {
		t.Errorf("compact the open segment: %v", err)
	}
	if _, err := l.Compacted(12345); !fault.Is(err, fault.NotFound) {
		t.Errorf("compact no segment: %v", err)
	}
	s.new[0] = slices.Clone(s.new[0][:2])
	if err := s.make(l, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.install(l, 0); !fault.Is(err, fault.Corrupt) {
		t.Errorf("install what ends early: %v", err)
	}
	s.sums[0][0]++
	if err := s.install(l, 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("install with another digest: %v", err)
	}
	if l.Err() != nil {
		t.Error(l.Err())
	}
}
