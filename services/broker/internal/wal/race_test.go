package wal

import (
	"bytes"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
)

// What is appended while a sync runs is not covered by it, and its file stays open until the next one.
func TestAppendWhileSyncing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := newMem()
		faulty := newFaulty(inner)
		files := segment.NewFiles(faulty, 0)
		l, _, err := Open(t.Context(), Config{FS: faulty, Dir: testDir, Tag: testTag, Files: files}, Evidence{})
		if err != nil {
			t.Fatal(err)
		}
		p := segmenttest.New(t)
		mustAppend(t, l, p.Data(1, 100, true))
		gate := make(chan struct{})
		faulty.Add(faultfs.Rule{Ops: faultfs.Sync, Until: gate, Count: 1})
		covered := p.End
		var group sync.WaitGroup
		group.Go(func() { mustSync(t, l) })
		synctest.Wait()
		mustAppend(t, l, p.Data(1, 100, false))
		close(gate)
		group.Wait()
		if l.Persisted() != covered || files.Open() != 1 {
			t.Errorf("persisted is %d, want %d; %d files are open", l.Persisted(), covered, files.Open())
		}
		mustSync(t, l)
		if _, r := mustOpen(t, inner.CrashNone(), Evidence{}); r.End != p.End || l.Persisted() != p.End {
			t.Errorf("end is %d after a crash, %d were synced", r.End, p.End)
		}
		if files.Open() != 0 {
			t.Errorf("%d files are open with nothing to sync", files.Open())
		}
	})
}

// A segment is not closed while a sync of it runs: of two syncs at a time the kernel tells only one that it failed.
func TestRotationWaitsForTheSync(t *testing.T) {
	faulty := newFaulty(newMem())
	l, _ := mustOpen(t, faulty, Evidence{})
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(1, 100, true))
	gate, begun := make(chan struct{}), make(chan struct{}, 9)
	faulty.Add(faultfs.Rule{Ops: faultfs.Sync, Until: gate, Count: 1})
	faulty.Observe(func(c faultfs.Call) {
		if c.Op == faultfs.Sync {
			begun <- struct{}{}
		}
	})
	var group sync.WaitGroup
	group.Go(func() { mustSync(t, l) })
	<-begun
	group.Go(func() { mustAppend(t, l, p.Data(1, 100, true)) })
	for l.mutate.TryLock() { // until the append is at work
		l.mutate.Unlock()
		runtime.Gosched()
	}
	for range 1000 {
		runtime.Gosched()
	}
	if len(begun) > 0 || len(l.Segments()) != 1 {
		t.Error("the segment was closed beside a running sync")
	}
	close(gate)
	group.Wait()
	if len(l.Segments()) != 2 {
		t.Errorf("%d segments", len(l.Segments()))
	}
}

// A reader that comes back after a cut must not be led to where its batch was before.
func TestReadsAfterACut(t *testing.T) {
	l, _ := mustOpen(t, newMem(), Evidence{})
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(1, 100, true))
	cut := p.End
	for range 5 {
		mustAppend(t, l, p.Data(1, 90_000, false))
	}
	view := l.view.Load()
	x, err := view.open.Index()
	if err != nil {
		t.Fatal(err)
	}
	held := slices.Clone(x.Entries)
	for o := partition.Offset(0); o < p.End; o++ { // leaves a cursor at each batch
		if _, err := readAll(l, o, o+1, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Truncate(cut); err != nil {
		t.Fatal(err)
	}
	follow(p, l.Tail())
	var want [][]byte
	for range 5 {
		want = append(want, p.Data(1, 70_000, false))
		mustAppend(t, l, want[len(want)-1])
	}
	for i, msg := range slices.Backward(want) { // forwards, each read would put the next one right
		o := cut + partition.Offset(i)
		if got, err := readAll(l, o, o+1, 1); err != nil || !bytes.Equal(got, msg) {
			t.Errorf("offset %d: %d bytes, %v", o, len(got), err)
		}
	}
	if !slices.Equal(held, x.Entries) {
		t.Error("what a reader holds has changed")
	}
}

// A file that a killed process made, and whose name it had no time to make durable.
func TestNameOfAFileOfAnEarlierLife(t *testing.T) {
	fsys := newMem()
	l, _ := mustOpen(t, fsys, Evidence{})
	l.Close()
	f, err := fsys.Open(testDir+"/"+segment.Name(0, segment.LogPart), vfs.Write|vfs.Create)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	p := segmenttest.New(t)
	l, _ = mustOpen(t, fsys, Evidence{})
	mustAppend(t, l, p.Data(1, 100, true))
	mustSync(t, l)
	if _, r := mustOpen(t, fsys.CrashNone(), Evidence{}); r.End != p.End {
		t.Errorf("end is %d after a crash, %d were synced", r.End, p.End)
	}
}

// Readers run beside the writer, the syncer and the ones who cut, seal and drop. Run with -race.
func TestReadersBesideTheWriter(t *testing.T) {
	l, _ := mustOpen(t, newMem(), Evidence{})
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(1, 1000, true))
	done := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				start := l.Start()
				persisted := l.Persisted()
				if persisted <= start {
					continue
				}
				if _, err := readAll(l, start, persisted, 5000); err != nil && l.Start() == start {
					t.Errorf("read from %d to %d: %v", start, persisted, err)
					return
				}
				_, _ = l.OffsetAt(1500, persisted)
				_ = l.Segments()
			}
		})
	}
	for i := range 200 {
		mustAppend(t, l, p.Data(1, 1000, i%20 == 0), p.Control(false))
		mustSync(t, l)
		if i%20 == 5 {
			for _, s := range l.Segments() {
				if s.State == StateClosed {
					if err := l.MarkSealed(s.Base, [32]byte{}, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := l.DropBefore(p.End - 60); err != nil {
				t.Fatal(err)
			}
		}
	}
	close(done)
	group.Wait()
}
