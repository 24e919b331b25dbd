package wal

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
)

// check opens what a crash at this moment has left, twice, and compares it with what may be there: everything synced, the same bytes, and
// behind it a prefix of what was written. It gives the end.
func (m *model) check(t testing.TB, fsys vfs.FS) (partition.Offset, error) {
	var end partition.Offset
	for again := range 2 {
		l, r, err := Open(t.Context(), m.config(fsys), m.evidence())
		if err != nil {
			return 0, err
		}
		copied := *m
		follower := *m.leader
		copied.leader, copied.states = &follower, maps.Clone(m.states)
		err = copied.recovered(l, r)
		l.files.Close()
		if err != nil {
			return 0, fmt.Errorf("open %d: %w", again+1, err)
		}
		if again > 0 && (r.End != end || r.Class != segment.Clean) {
			return 0, fmt.Errorf("second open ends at %d, class %s; the first at %d", r.End, r.Class, end)
		}
		end = r.End
	}
	return end, nil
}

func survivors(inner *memfs.FS, moment uint64, random int) []*memfs.FS {
	out := []*memfs.FS{inner.CrashNone(), inner.CrashAll()}
	for i := range random {
		out = append(out, inner.Crash(rand.New(rand.NewPCG(moment, uint64(i)))))
	}
	return out
}

// Power fails before every operation of a workload, and again before every operation of the recovery from some of these.
func TestCrashAtEveryOperation(t *testing.T) {
	tried, points := 0, 0
	for seed := range sample().seeds {
		inner := newMem()
		faulty := newFaulty(inner)
		m := newModel(t)
		m.pooled = seed%2 == 0
		at := func(c faultfs.Call) {
			if c.Op&(faultfs.Read|faultfs.List|faultfs.Stat) != 0 {
				return // nothing has changed since the operation before
			}
			points++
			for i, crashed := range survivors(inner, seed<<32|uint64(c.Number), sample().states) {
				tried++
				again := crashed.CrashAll()
				if _, err := m.check(t, crashed); err != nil {
					t.Fatalf("seed %d, state %d, crash before operation %d (%+v): %v", seed, i, c.Number, c, err)
				}
				if tried%20 == 0 || sample().full {
					tried += m.crashInRecovery(t, again, c.Number)
				}
			}
		}
		faulty.Observe(at)
		if err := m.workload(t, faulty, seed, 60); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Logf("%d crash states at %d crash points", tried, points)
}

func (m *model) crashInRecovery(t testing.TB, inner *memfs.FS, number int) (tried int) {
	t.Helper()
	faulty := newFaulty(inner)
	faulty.Observe(func(c faultfs.Call) {
		if c.Op&(faultfs.Read|faultfs.List|faultfs.Stat) != 0 {
			return
		}
		for _, crashed := range survivors(inner, uint64(c.Number), 2) {
			tried++
			if _, err := m.check(t, crashed); err != nil {
				t.Fatalf("crash before operation %d, then before operation %d (%+v) of the recovery: %v", number, c.Number, c, err)
			}
		}
	})
	if _, err := m.check(t, faulty); err != nil {
		t.Fatalf("crash before operation %d: %v", number, err)
	}
	return tried
}

// workload drives a log through random steps on one file system, with clean restarts, until something fails.
func (m *model) workload(t testing.TB, fsys vfs.FS, seed uint64, steps int) error {
	rng := rand.New(rand.NewPCG(seed, 7))
	for range 3 {
		l, r, err := Open(t.Context(), m.config(fsys), m.evidence())
		if err != nil {
			return err
		}
		follow(m.leader, r.Tail)
		for step := range steps / 3 {
			if err := m.step(l, rng); err != nil {
				l.files.Close()
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
		if err := l.Close(); err != nil {
			return err
		}
		m.synced = m.end()
	}
	return nil
}

// A cut that crosses segments, and a rotation, are where files come and go: each operation of them is a crash point with many states.
func TestCrashWhileFilesComeAndGo(t *testing.T) {
	tried := 0
	inner := newMem()
	faulty := newFaulty(inner)
	m := newModel(t)
	faulty.Observe(func(c faultfs.Call) {
		for i, crashed := range survivors(inner, uint64(c.Number), 5*sample().states+1) {
			tried++
			if _, err := m.check(t, crashed); err != nil {
				t.Fatalf("state %d, crash before operation %d (%+v): %v", i, c.Number, c, err)
			}
		}
	})
	l, _, err := Open(t.Context(), m.config(faulty), m.evidence())
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		for i := range 3 {
			group := [][]byte{m.leader.Data(3, 2000, i == 0), m.leader.Control(false)}
			m.batches = append(m.batches, group...)
			mustAppend(t, l, group...)
		}
	}
	mustSync(t, l)
	m.synced = m.end()
	m.mark = l.Mark()
	old := m.batches
	for _, keep := range []int{15, 6, 5, 0} {
		to := baseOf(old[keep])
		m.synced = to
		if err := l.Truncate(to); err != nil {
			t.Fatal(err)
		}
		m.batches = old[:keep:keep]
		follow(m.leader, l.Tail())
		if got, err := contents(l); err != nil || !bytes.Equal(bytes.Join(got, nil), bytes.Join(m.batches, nil)) {
			t.Fatalf("after truncating to batch %d: %d batches, %v", keep, len(got), err)
		}
	}
	if l.Start() != 0 || l.End() != 0 {
		t.Errorf("an emptied log is [%d, %d)", l.Start(), l.End())
	}
	t.Logf("%d crash states", tried)
}
