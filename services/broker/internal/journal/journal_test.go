package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

const testDir = "journal"

func replicaID(n byte) partition.UUID { return partition.UUID{15: n} }

func mustOpen(t *testing.T, fsys vfs.FS) (*Journal, State) {
	t.Helper()
	j, state, err := Open(Config{FS: fsys, Dir: testDir, Create: true})
	if err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() { j.Close() })
	return j, state
}

func mustPut(t *testing.T, j *Journal, records ...Record) {
	t.Helper()
	if err := j.Put(records...); err != nil {
		t.Fatalf("Put: %v", err)
	}
}

func mustSync(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Sync(); err != nil {
		t.Fatalf("Sync: %v", err)
	}
}

func TestStateSurvivesReopening(t *testing.T) {
	fsys := memfs.New()
	a, b, gone := replicaID(1), replicaID(2), replicaID(3)
	idA := partition.ID{Topic: partition.UUID{0: 7}, Index: 5}
	faults := []segment.Range{{From: 3, To: 4, Base: 0, Position: 300, Limit: 400}}
	mark := segment.Mark{Generation: 2, Base: 10, Offset: 12, Position: 99, Chain: 1 << 63}

	j, state := mustOpen(t, fsys)
	if len(state.Replicas) != 0 {
		t.Fatalf("a new journal knows %v", state.Replicas)
	}
	mustPut(t, j,
		Created(a, idA, Origin{100, 77}), Created(b, partition.ID{}, Origin{}), Created(gone, partition.ID{}, Origin{}),
		Promise(a, 5), Promise(a, 4), HW(a, 40), HW(a, 39), Faults(a, faults), Deleted(gone),
		Mark(a, segment.Mark{Generation: 1, Offset: 30}), Mark(a, mark), Mark(a, segment.Mark{Generation: 1, Offset: 31}),
		Mark(a, segment.Mark{Generation: 2, Offset: 11}))
	want := map[partition.UUID]Replica{
		a: {ID: idA, Promise: 5, HW: 40, Mark: mark, Origin: Origin{100, 77}, Faults: faults},
		b: {},
	}
	if err := j.Close(); err != nil {
		t.Fatalf("Close: %v", err)
	}
	for range 2 {
		again, got := mustOpen(t, fsys.CrashNone())
		if diff := cmp.Diff(want, got.Replicas); diff != "" {
			t.Errorf("state after reopening (-want +got):\n%s", diff)
		}
		if err := again.Close(); err != nil {
			t.Fatalf("Close: %v", err)
		}
	}
	if err := j.Put(Promise(a, 9)); !errors.Is(err, errClosed) {
		t.Errorf("Put after Close: %v", err)
	}
}

func TestOpenWithoutAJournal(t *testing.T) {
	_, _, err := Open(Config{FS: memfs.New(), Dir: testDir})
	if !fault.Is(err, fault.Corrupt) || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Open of nothing: %v", err)
	}
}

func TestUnknownReplicaIsRefusedWhole(t *testing.T) {
	fsys := memfs.New()
	j, _ := mustOpen(t, fsys)
	if err := j.Put(Created(replicaID(1), partition.ID{}, Origin{}), Promise(replicaID(2), 1)); !fault.Is(err, fault.NotFound) {
		t.Fatalf("Put: %v", err)
	}
	if err := j.Put(Created(replicaID(1), partition.ID{}, Origin{}), Deleted(replicaID(1)), HW(replicaID(1), 1)); !fault.Is(err, fault.NotFound) {
		t.Fatalf("Put: %v", err)
	}
	mustSync(t, j)
	if _, ok := j.Replica(replicaID(1)); ok {
		t.Error("a refused Put left a replica behind")
	}
}

func TestManyFaultsAreJoined(t *testing.T) {
	j, _ := mustOpen(t, memfs.New())
	var ranges []segment.Range
	for i := range partition.Offset(2 * maxFaults) {
		ranges = append(ranges, segment.Range{From: 2 * i, To: 2*i + 1, Position: int64(i), Limit: int64(i) + 1})
	}
	mustPut(t, j, Created(replicaID(1), partition.ID{}, Origin{}), Faults(replicaID(1), ranges))
	r, _ := j.Replica(replicaID(1))
	if len(r.Faults) != maxFaults {
		t.Fatalf("%d ranges", len(r.Faults))
	}
	last := r.Faults[maxFaults-1]
	if last.From != ranges[maxFaults-1].From || last.To != ranges[len(ranges)-1].To || last.Limit != ranges[len(ranges)-1].Limit {
		t.Errorf("last range is %+v", last)
	}
}

// Every Sync that comes while one runs is answered by the next one.
func TestSyncsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		faulty := faultfs.New(memfs.New(), clock.Real())
		j, _ := mustOpen(t, faulty)
		for i := range byte(9) {
			mustPut(t, j, Created(replicaID(i), partition.ID{}, Origin{}))
		}
		mustSync(t, j)
		syncs := 0
		faulty.Observe(func(c faultfs.Call) {
			if c.Op == faultfs.Sync {
				syncs++
			}
		})
		gate := make(chan struct{})
		faulty.Add(faultfs.Rule{Ops: faultfs.Sync, Until: gate, Count: 1})
		var group sync.WaitGroup
		for i := range byte(9) {
			group.Go(func() {
				if err := errors.Join(j.Put(Promise(replicaID(i), 3)), j.Sync()); err != nil {
					t.Errorf("Put and Sync: %v", err)
				}
			})
			synctest.Wait() // the first hangs in its sync, the others wait for it
		}
		close(gate)
		group.Wait()
		if syncs != 2 {
			t.Errorf("%d syncs for nine callers, want 2", syncs)
		}
	})
}

func TestFullDiskKeepsRecordsPending(t *testing.T) {
	inner := memfs.New()
	faulty := faultfs.New(inner, clock.Real())
	j, _ := mustOpen(t, faulty)
	mustPut(t, j, Created(replicaID(1), partition.ID{}, Origin{}), Promise(replicaID(1), 1))
	rule := faulty.Add(faultfs.Rule{Ops: faultfs.Write, Err: syscall.ENOSPC, Short: 20})
	if err := j.Sync(); !fault.Is(err, fault.DiskFull) {
		t.Fatalf("Sync on a full disk: %v", err)
	}
	mustPut(t, j, Promise(replicaID(1), 2))
	rule.Remove()
	mustSync(t, j)
	_, state := mustOpen(t, inner.CrashNone())
	if got := state.Replicas[replicaID(1)].Promise; got != 2 {
		t.Errorf("promise %d after a full disk, want 2", got)
	}
}

func TestNothingIsRetriedAfterAFailedSync(t *testing.T) {
	inner := memfs.New()
	faulty := faultfs.New(inner, clock.Real())
	j, _ := mustOpen(t, faulty)
	mustPut(t, j, Created(replicaID(1), partition.ID{}, Origin{}))
	faulty.Add(faultfs.Rule{Ops: faultfs.Sync, Err: syscall.EIO, Count: 1})
	for range 2 {
		if err := j.Sync(); !fault.Is(err, fault.DiskPoisoned) || !errors.Is(err, syscall.EIO) {
			t.Fatalf("Sync after EIO: %v", err)
		}
	}
	if err := j.Put(Promise(replicaID(1), 1)); !fault.Is(err, fault.DiskPoisoned) {
		t.Errorf("Put after EIO: %v", err)
	}
	if err := j.Err(); !fault.Is(err, fault.DiskPoisoned) {
		t.Errorf("Err after EIO: %v", err)
	}
}

// The bytes are frozen: a change here is a new format version.
func TestGoldenBytes(t *testing.T) {
	p := header{number: 3, first: 9, checkpoint: 2}.append(nil)
	p = appendFrame(p, 3, frame{Promise(replicaID(1), 7), 11, 9})
	want := "53514a31010000000300000000000000" + "09000000000000000200000000000000" + // magic, version, number; first, checkpoint
		"00000000000000000000000000000000" + "0000000000000000000000002d1d54e8" + // reserved; checksum
		"8f3707f1380000000b00000000000000" + "09000000000000000300000000000000" + // checksum, length, sequence; durable, kind
		"00000000000000000000000000000001" + "0700000000000000" // replica; epoch
	if got := fmt.Sprintf("%x", p); got != want {
		t.Errorf("bytes are\n%s, want\n%s", got, want)
	}
}

func FuzzReplay(f *testing.F) {
	fsys := memfs.New()
	j, _, err := Open(Config{FS: fsys, Dir: testDir, Create: true, Limits: Limits{CheckpointBytes: minCheckpointBytes}})
	if err != nil {
		f.Fatal(err)
	}
	for i := range byte(3) {
		if err := j.Put(Created(replicaID(i), partition.ID{}, Origin{}), Promise(replicaID(i), 9), Faults(replicaID(i), make([]segment.Range, 2))); err != nil {
			f.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		f.Fatal(err)
	}
	p, err := readFile(fsys, testDir+"/"+fileName(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p, uint64(1))
	f.Add(p[:900], uint64(1))
	f.Add(bytes.Repeat([]byte{0}, 500), uint64(0))
	f.Fuzz(func(t *testing.T, p []byte, number uint64) {
		reading, err := replay(p, number, nil)
		if err != nil {
			if !fault.Is(err, fault.Corrupt) {
				t.Errorf("replay fails with %v", err)
			}
			return
		}
		// What was accepted can be written again and means the same.
		again := State{Replicas: map[partition.UUID]Replica{}}
		for _, r := range reading.State.records() {
			if err := errors.Join(r.check(), again.apply(r)); err != nil {
				t.Fatalf("record of an accepted state: %v", err)
			}
		}
		if diff := cmp.Diff(reading.State, again); diff != "" {
			t.Errorf("checkpoint changes the state (-want +got):\n%s", diff)
		}
	})
}
