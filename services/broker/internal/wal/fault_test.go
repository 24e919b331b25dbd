package wal

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
)

// Every operation fails once, in turn. An EIO ends the log, or nothing is known of it (an index that could not be written); a full disk takes
// back what it hit. In both cases, and after any crash then, everything synced is there and the same.
func TestErrorAtEveryOperation(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		poisoned, full := 0, 0
		for n := 1; ; n++ {
			inner := newMem()
			faulty := newFaulty(inner)
			rule := faulty.Add(faultfs.Rule{
				Ops:   faultfs.Any &^ (faultfs.Read | faultfs.List | faultfs.Stat),
				First: n, Count: 1, Err: errno, Short: n % 700,
			})
			m := newModel(t)
			err := m.workload(t, faulty, 3, 45)
			if rule.Hits() == 0 {
				break
			}
			switch {
			case err == nil:
			case fault.Is(err, fault.DiskPoisoned):
				poisoned++
			case fault.Is(err, fault.DiskFull) && errno == syscall.ENOSPC:
				full++
			default:
				t.Fatalf("%v at operation %d: %v", errno, n, err)
			}
			if err != nil && !errors.Is(err, errno) {
				t.Fatalf("%v at operation %d: %v does not say so", errno, n, err)
			}
			for i, crashed := range survivors(inner, uint64(n), 3) {
				if _, err := m.check(t, crashed); err != nil {
					t.Fatalf("%v at operation %d, state %d of the crash after it: %v", errno, n, i, err)
				}
			}
		}
		t.Logf("%v: %d times poisoned, %d times full", errno, poisoned, full)
		if poisoned == 0 || full == 0 && errno == syscall.ENOSPC {
			t.Errorf("%v: %d times poisoned, %d times full", errno, poisoned, full)
		}
	}
}

// After a full disk the log is as it was before the append, on the disk too, and goes on when there is room.
func TestFullDiskTakesTheAppendBack(t *testing.T) {
	for _, op := range []faultfs.Op{faultfs.Write, faultfs.Allocate, faultfs.Open} {
		for first := 1; first < 4; first++ {
			t.Run(fmt.Sprintf("%d-%d", op, first), func(t *testing.T) {
				inner := newMem()
				faulty := newFaulty(inner)
				m := newModel(t)
				l, _, err := Open(t.Context(), m.config(faulty), Evidence{})
				if err != nil {
					t.Fatal(err)
				}
				kept := [][]byte{m.leader.Data(3, 500, true), m.leader.Data(3, 500, false)}
				mustAppend(t, l, kept...)
				before, tail, saved := l.Segments(), l.Tail(), *m.leader
				// The group goes on in the open segment and starts two more: it fails in any of the three.
				group := [][]byte{
					m.leader.Data(9, 900, false), m.leader.Data(9, 900, true), m.leader.Data(40, 900, true),
				}
				rule := faulty.Add(faultfs.Rule{Ops: op, Path: "*.log", First: first, Err: syscall.ENOSPC, Short: 333})
				err = l.Append(group)
				if rule.Hits() == 0 {
					return // there are fewer operations of this kind
				}
				wantKind(t, "append to a full disk", err, fault.DiskFull)
				rule.Remove()
				if got := l.Tail(); got != tail {
					t.Errorf("tail is %+v, was %+v", got, tail)
				}
				if got := l.Segments(); len(got) != len(before) || got[0].Summary != before[0].Summary {
					t.Errorf("segments are %+v, were %+v", got, before)
				}
				*m.leader = saved
				again := [][]byte{m.leader.Data(9, 800, false), m.leader.Data(9, 800, true)}
				mustAppend(t, l, again...)
				mustSync(t, l)
				m.batches = append(kept, again...)
				m.synced = m.end()
				for _, crashed := range survivors(inner, 1, 5) {
					if _, err := m.check(t, crashed); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
}

// A failed sync is the end: not even a second one that would succeed is tried, and a restart does not believe the page cache.
func TestFailedSyncIsNeverRetried(t *testing.T) {
	inner := newMem()
	faulty := newFaulty(inner)
	m := newModel(t)
	l, _, err := Open(t.Context(), m.config(faulty), Evidence{})
	if err != nil {
		t.Fatal(err)
	}
	group := [][]byte{m.leader.Data(3, 3000, true), m.leader.Data(3, 3000, false)}
	mustAppend(t, l, group[0])
	mustSync(t, l)
	m.synced = m.end()
	mustAppend(t, l, group[1])
	m.batches = group
	faulty.Add(faultfs.Rule{Ops: faultfs.Sync, Err: syscall.EIO, Count: 1})
	syncs := 0
	faulty.Observe(func(c faultfs.Call) {
		if c.Op == faultfs.Sync {
			syncs++
		}
	})
	wantKind(t, "sync", l.Sync(), fault.DiskPoisoned)
	wantKind(t, "second sync", l.Sync(), fault.DiskPoisoned)
	wantKind(t, "append", l.Append([][]byte{m.leader.Control(false)}), fault.DiskPoisoned)
	wantKind(t, "truncate", l.Truncate(0), fault.DiskPoisoned)
	wantKind(t, "seal", l.MarkSealed(0, [32]byte{}, nil), fault.DiskPoisoned)
	wantKind(t, "drop", l.DropBefore(1), fault.DiskPoisoned)
	wantKind(t, "close", l.Close(), fault.DiskPoisoned)
	l.files.Close()
	if syncs != 1 {
		t.Errorf("%d syncs, want 1", syncs)
	}
	if l.files.Open() != 0 {
		t.Errorf("%d files are open after Close", l.files.Open())
	}
	// The process dies and starts again on the same kernel: the pages are in its cache, clean, and not on the disk.
	l, r, err := Open(t.Context(), m.config(inner), Evidence{Mark: segment.Mark{}})
	if err != nil {
		t.Fatal(err)
	}
	if r.End != m.leader.End-1 {
		t.Fatalf("end is %d", r.End)
	}
	// What it reports it must have made durable: now the power fails.
	_, after := mustOpen(t, inner.CrashNone(), Evidence{})
	if after.End != r.End || l.Persisted() != r.End {
		t.Errorf("the restart reported %d as persisted, after a power cut there is %d", r.End, after.End)
	}
}

// A failed directory sync leaves a file whose name may not survive: nothing may be acknowledged in it.
func TestNewSegmentNeedsItsName(t *testing.T) {
	inner := newMem()
	faulty := newFaulty(inner)
	l, _ := mustOpen(t, faulty, Evidence{})
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(1, 10, true))
	mustSync(t, l)
	faulty.Add(faultfs.Rule{Ops: faultfs.SyncDir, Err: syscall.EIO})
	wantKind(t, "append", l.Append([][]byte{p.Data(1, 10, true)}), fault.DiskPoisoned)
}

// More than the window is never left unsynced, whatever the caller does.
func TestAppendSyncsBeforeTheWindowIsFull(t *testing.T) {
	inner := newMem()
	l, _, err := Open(t.Context(), Config{FS: inner, Dir: testDir, Tag: testTag, Limits: Limits{UnsyncedBytes: 64 << 10}}, Evidence{})
	if err != nil {
		t.Fatal(err)
	}
	p := segmenttest.New(t)
	mustAppend(t, l, p.Data(1, 100, true))
	for range 40 {
		mustAppend(t, l, p.Data(1, 5000, false), p.Data(1, 5000, false))
		if unsynced := l.open.Unsynced(); unsynced > 64<<10 {
			t.Fatalf("%d bytes are not synced", unsynced)
		}
	}
	if l.Persisted() == 0 {
		t.Error("nothing is persisted")
	}
	_, r := mustOpen(t, inner.CrashNone(), Evidence{})
	if r.End < l.Persisted() {
		t.Errorf("end is %d after a crash, %d was persisted", r.End, l.Persisted())
	}
}

// A read that fails once, at any place of a recovery, is not taken for bytes that are not there: nothing is cut for it, and the next recovery
// finds everything.
func TestReadErrorAtEveryOperationOfRecovery(t *testing.T) {
	made := newMem()
	m := newModel(t)
	l, _, err := Open(t.Context(), m.config(made), Evidence{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		group := [][]byte{m.leader.Data(2, 3000, i%20 == 0)}
		m.batches = append(m.batches, group...)
		mustAppend(t, l, group...)
		mustSync(t, l)
		if i == 30 {
			if err := m.seal(l); err != nil {
				t.Fatal(err)
			}
		}
		if i == 50 {
			m.mark = l.Mark()
		}
	}
	m.synced = m.end()
	failed := 0
	for n := 1; ; n++ {
		inner := made.CrashAll()
		faulty := newFaulty(inner)
		rule := faulty.Add(faultfs.Rule{Ops: faultfs.Read, First: n, Count: 1, Err: syscall.EIO})
		again, r, err := Open(t.Context(), m.config(faulty), m.evidence())
		if rule.Hits() == 0 {
			break
		}
		failed++
		if err != nil {
			if !fault.Is(err, fault.Corrupt) && !fault.Is(err, fault.DiskPoisoned) {
				t.Fatalf("read %d: %v", n, err)
			}
		} else {
			if r.End != m.end() && r.Class < segment.Suspect {
				t.Fatalf("read %d: %s, end %d, want %d", n, r.Class, r.End, m.end())
			}
			again.files.Close()
		}
		if _, err := m.check(t, inner); err != nil {
			t.Fatalf("read %d failed once, and then: %v", n, err)
		}
	}
	if failed < 5 {
		t.Errorf("only %d reads", failed)
	}
}
