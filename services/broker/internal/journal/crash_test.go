package journal

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

// history is what a workload has put and what it was told.
type history struct {
	states []State // by number of records put: what the journal must then know
	synced int     // so many records are promised to be durable
}

// workload puts records about three replicas, syncs now and then, and makes several checkpoints. It ends early at the first error.
func (h *history) workload(fsys vfs.FS) error {
	model := State{Replicas: map[partition.UUID]Replica{}}
	h.states, h.synced = []State{model.clone()}, 0
	j, _, err := Open(Config{FS: fsys, Dir: testDir, Create: true, Limits: Limits{CheckpointBytes: minCheckpointBytes}})
	if err != nil {
		return err
	}
	defer j.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	for step := range 40 {
		for range 1 + rng.IntN(6) {
			replica := replicaID(byte(rng.IntN(3)))
			r := Created(replica, partition.ID{}, Origin{partition.Offset(step), 1})
			if _, known := model.Replicas[replica]; known {
				switch rng.IntN(8) {
				case 0:
					r = Deleted(replica)
				case 1, 2:
					r = Promise(replica, partition.Epoch(step))
				case 3, 4:
					r = Mark(replica, segment.Mark{Generation: uint64(step / 9), Offset: partition.Offset(step)})
				case 5:
					r = Faults(replica, make([]segment.Range, 1+rng.IntN(9)))
				default:
					r = HW(replica, partition.Offset(step))
				}
			}
			if err := errors.Join(model.apply(r), j.Put(r)); err != nil {
				return err
			}
			h.states = append(h.states, model.clone())
		}
		if err := j.Sync(); err != nil {
			return err
		}
		h.synced = len(h.states) - 1
	}
	return nil
}

// check opens what a crash left and looks whether it is one of the states that it may be.
func (h *history) check(fsys vfs.FS) (int, error) {
	create := h.synced == 0
	j, state, err := Open(Config{FS: fsys, Dir: testDir, Create: create, Limits: Limits{CheckpointBytes: minCheckpointBytes}})
	if err != nil {
		return 0, err
	}
	defer j.Close()
	for put := len(h.states) - 1; put >= h.synced; put-- {
		if cmp.Equal(h.states[put], state) {
			return put, nil
		}
	}
	return 0, fmt.Errorf("state is none of those after %d to %d records: %+v", h.synced, len(h.states)-1, state)
}

// states is how many random crash states of a moment are tried; `make crash` sets SQ_CRASH=full.
func states() int {
	switch {
	case os.Getenv("SQ_CRASH") == "full":
		return 200
	case raceDetector:
		return 0
	default:
		return 4
	}
}

// survivors gives crash states of one moment.
func survivors(inner *memfs.FS, moment, random int) []*memfs.FS {
	out := []*memfs.FS{inner.CrashNone(), inner.CrashAll()}
	for i := range random {
		out = append(out, inner.Crash(rand.New(rand.NewPCG(uint64(moment), uint64(i)))))
	}
	return out
}

func TestCrashAtEveryOperation(t *testing.T) {
	inner := memfs.New()
	faulty := faultfs.New(inner, clock.Real())
	var h history
	tried := 0
	faulty.Observe(func(c faultfs.Call) {
		for _, crashed := range survivors(inner, c.Number, states()) {
			tried++
			again := crashed.CrashAll()
			put, err := h.check(crashed)
			if err != nil {
				t.Fatalf("crash before operation %d (%+v): %v", c.Number, c, err)
			}
			if twice, err := h.check(crashed.CrashNone()); err != nil || twice < put {
				t.Fatalf("second open after a crash before operation %d: %d records, then %d: %v", c.Number, put, twice, err)
			}
			if tried%20 == 0 {
				tried += crashInRecovery(t, &h, again)
			}
		}
	})
	if err := h.workload(faulty); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d crash states", tried)
}

// crashInRecovery crashes at every operation of Open; what it has shown once must not be lost by it.
func crashInRecovery(t *testing.T, h *history, inner *memfs.FS) (tried int) {
	t.Helper()
	faulty := faultfs.New(inner, clock.Real())
	faulty.Observe(func(c faultfs.Call) {
		for _, crashed := range survivors(inner, c.Number, 2) {
			tried++
			if _, err := h.check(crashed); err != nil {
				t.Fatalf("crash in recovery before %+v: %v", c, err)
			}
		}
	})
	if _, err := h.check(faulty); err != nil {
		t.Fatalf("recovery: %v", err)
	}
	return tried
}

func TestErrorAtEveryOperation(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for n := 1; ; n++ {
			inner := memfs.New()
			faulty := faultfs.New(inner, clock.Real())
			rule := faulty.Add(faultfs.Rule{First: n, Count: 1, Err: errno, Short: 100})
			var h history
			err := h.workload(faulty)
			if rule.Hits() == 0 {
				break
			}
			if err != nil && !fault.Is(err, fault.DiskPoisoned) && !fault.Is(err, fault.DiskFull) && !fault.Is(err, fault.Corrupt) {
				t.Errorf("%v at operation %d gives %v", errno, n, err)
			}
			for _, crashed := range survivors(inner, n, states()) {
				if _, err := h.check(crashed); err != nil {
					t.Fatalf("%v at operation %d, then a crash: %v", errno, n, err)
				}
			}
		}
	}
}

// Damage anywhere is found, but for the records behind the last proof of durability, which cannot be told from a torn write.
func TestDamageAtEveryBit(t *testing.T) {
	fsys := memfs.New()
	j, _, err := Open(Config{FS: fsys, Dir: testDir, Create: true, Limits: Limits{CheckpointBytes: minCheckpointBytes}})
	if err != nil {
		t.Fatal(err)
	}
	model := State{Replicas: map[partition.UUID]Replica{}}
	var afterGroup []State
	var lastGroup int64
	for i := range byte(8) {
		group := []Record{Created(replicaID(i), partition.ID{}, Origin{}), Promise(replicaID(i), 1), HW(replicaID(i/2), partition.Offset(i))}
		for _, r := range group {
			if err := model.apply(r); err != nil {
				t.Fatal(err)
			}
		}
		lastGroup = j.position
		mustPut(t, j, group...)
		mustSync(t, j)
		afterGroup = append(afterGroup, model.clone())
	}
	p, err := readFile(fsys, testDir+"/"+fileName(1))
	if err != nil {
		t.Fatal(err)
	}
	p = trimZeros(p)
	p = append(p, make([]byte, 64)...)
	proven := afterGroup[len(afterGroup)-2]
	check := func(what string, damaged []byte) {
		reading, err := replay(damaged, 1, nil)
		if err != nil {
			if !fault.Is(err, fault.Corrupt) {
				t.Fatalf("%s: %v", what, err)
			}
			return
		}
		for replica, want := range proven.Replicas {
			got, ok := reading.State.Replicas[replica]
			if !ok || got.Promise < want.Promise || got.HW < want.HW {
				t.Fatalf("%s: replica %s is %+v, was %+v", what, replica, got, want)
			}
		}
	}
	step := 1
	if raceDetector {
		step = 61
	}
	for bit := 0; bit < 8*len(p); bit += step {
		p[bit/8] ^= 1 << (bit % 8)
		check(fmt.Sprintf("bit %d", bit), p)
		p[bit/8] ^= 1 << (bit % 8)
	}
	for at := 0; at+512 <= int(lastGroup); at += 64 { // beyond, the proof goes with what it proves
		damaged := append([]byte(nil), p...)
		clear(damaged[at : at+512])
		check(fmt.Sprintf("zeros at %d", at), damaged)
	}
}
