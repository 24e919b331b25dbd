package commit

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

// Several logs on one disk against plain lists, with kills, power cuts and clean stops at random.
func TestLogsAreListsThatSurviveCrashes(t *testing.T) {
	for seed := range sample().models {
		if err := runModel(t, seed, 120); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func runModel(t testing.TB, seed uint64, steps int) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(t, Mode(seed%4%2), 2+int(seed%4))
	fsys := memfs.New()
	if err := w.open(fsys); err != nil {
		return err
	}
	for step := range steps {
		var err error
		switch rng.IntN(40) {
		case 0:
			fsys = fsys.Crash(rng)
			w = w.snapshot()
			err = w.open(fsys)
		case 1:
			w = w.snapshot()
			err = w.open(fsys) // kill -9
		case 2:
			if err = w.close(); err == nil {
				w = w.snapshot()
				fsys = fsys.CrashNone()
				err = w.open(fsys)
			}
		default:
			err = w.step(rng)
		}
		if err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return w.check(fsys.CrashNone())
}

// close stops as the roster does.
func (w *world) close() error {
	for _, l := range w.logs {
		if err := l.log.Close(); err != nil {
			return err
		}
		l.seat.Leave(true)
		l.acked = l.end
	}
	if err := w.c.Close(); err != nil {
		return err
	}
	if w.c.mu.ring != nil && w.j.Redo() != nil {
		return fmt.Errorf("a clean stop left redo")
	}
	return w.j.Close()
}

// Power fails before every operation of a workload, and for some of these before every operation of the recovery.
func TestCrashAtEveryOperation(t *testing.T) {
	tried, points, recycled := 0, 0, 0
	for seed := range sample().workloads {
		inner := memfs.New()
		faulty := newFaulty(inner)
		w := newWorld(t, Mode(seed%2), 3)
		faulty.Observe(func(c faultfs.Call) {
			if !isChange(c) {
				return
			}
			points++
			if c.Op == faultfs.Rename && strings.HasPrefix(c.Path, "pool/") {
				recycled++
			}
			for i, crashed := range survivors(inner, seed<<32|uint64(c.Number), sample().states) {
				tried++
				again := crashed.CrashAll()
				if err := w.check(crashed); err != nil {
					t.Fatalf("seed %d, state %d, crash before operation %d (%+v): %v", seed, i, c.Number, c, err)
				}
				if tried%40 == 0 {
					tried += crashInRecovery(t, w, again, c.Number)
				}
			}
		})
		if err := w.workload(faulty, seed, 50); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if recycled == 0 && sample().workloads > 1 {
		t.Error("no file was recycled")
	}
	t.Logf("%d crash states at %d crash points, %d files were recycled", tried, points, recycled)
}

func crashInRecovery(t testing.TB, w *world, inner *memfs.FS, number int) (tried int) {
	t.Helper()
	faulty := newFaulty(inner)
	s := w.snapshot()
	faulty.Observe(func(c faultfs.Call) {
		if !isChange(c) {
			return
		}
		for _, crashed := range survivors(inner, uint64(c.Number), 1) {
			tried++
			if err := w.check(crashed); err != nil {
				t.Fatalf("crash before operation %d, then before operation %d (%+v) of the recovery: %v", number, c.Number, c, err)
			}
		}
	})
	if err := s.open(faulty); err != nil {
		t.Fatalf("crash before operation %d: %v", number, err)
	}
	return tried
}

// workload drives the logs through random steps, with a kill in the middle, until something fails.
func (w *world) workload(fsys *faultfs.FS, seed uint64, steps int) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	for life := range 2 {
		if err := w.open(fsys); err != nil {
			return fmt.Errorf("life %d: %w", life, err)
		}
		for step := range steps / 2 {
			if err := w.step(rng); err != nil {
				return fmt.Errorf("life %d, step %d: %w", life, step, err)
			}
		}
	}
	return nil
}

// The disk fails once, at every operation in turn. Then the power fails at once; or the process restarts on the same machine, whose page cache
// shows what is on no platter, and the power fails after that.
func TestErrorAtEveryOperation(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		for _, mode := range []Mode{Auto, Always} {
			t.Run(fmt.Sprintf("%s %s", errno, mode), func(t *testing.T) {
				for first := 1; errorAt(t, errno, mode, first); first++ {
					continue
				}
			})
		}
	}
}

// errorAt has one operation fail; false if there are fewer.
func errorAt(t *testing.T, errno syscall.Errno, mode Mode, first int) bool {
	t.Helper()
	inner := memfs.New()
	w := newWorld(t, mode, 3)
	if err := w.open(inner); err != nil {
		t.Fatal(err)
	}
	w = w.snapshot()
	faulty := newFaulty(inner)
	rule := faulty.Add(faultfs.Rule{Ops: ^(faultfs.Lock | faultfs.Usage) & faultfs.Any, First: first, Count: 1, Err: errno, Short: 700})
	err := w.workload(faulty, 3, 40)
	if rule.Hits() == 0 {
		t.Logf("%d operations", first-1)
		return false
	}
	rule.Remove()
	if err == nil {
		return true // it did not matter
	}
	if lost := w.check(inner.CrashNone()); lost != nil {
		t.Fatalf("%v at operation %d (%v), then a power cut: %v", errno, first, err, lost)
	}
	s := w.snapshot()
	if err := s.open(inner); err != nil {
		t.Fatalf("%v at operation %d, then a restart: %v", errno, first, err)
	}
	for i, l := range s.logs {
		w.logs[i].acked = l.acked // a cut that failed may be undone, but nothing that was shown is lost
	}
	if err := w.check(inner.CrashNone()); err != nil {
		t.Fatalf("%v at operation %d, then a restart, then a power cut: %v", errno, first, err)
	}
	return true
}
