package wal

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// model is a log as a plain list, and what its caller keeps beside it: the journal's mark and high watermark.
type model struct {
	leader  *segmenttest.Leader
	batches [][]byte         // from start on
	start   partition.Offset // of the list
	dropped partition.Offset // what is below may be gone
	synced  partition.Offset
	sealed  partition.Offset
	states  map[partition.Offset][]byte // of sealed segments, by end
	mark    segment.Mark                // as the journal has it, durably
	pooled  bool                        // files are recycled
}

func newModel(t testing.TB) *model {
	return &model{leader: segmenttest.New(t), states: map[partition.Offset][]byte{}}
}

func (m *model) config(fsys vfs.FS) Config {
	files := segment.NewFiles(fsys, 3)
	cfg := Config{FS: fsys, Dir: testDir, Tag: testTag, Log: discard(), Files: files, Limits: Limits{IndexBytes: 4 << 10}, Barrier: func(mark segment.Mark) error {
		m.mark = mark
		return nil
	}}
	if m.pooled {
		spare, err := pool.New(fsys, "pool", pool.Limits{FileBytes: 4 << 10, PoolBytes: 256 << 10})
		if err != nil {
			m.leader.TB.Fatalf("open pool: %v", err)
		}
		files.Recycle(spare)
	}
	return cfg
}

func (m *model) evidence() Evidence { return Evidence{HW: m.leader.HW, Mark: m.mark} }

func (m *model) end() partition.Offset { return m.leader.End }

// index finds the batch that begins at an offset; len(batches) for the end.
func (m *model) index(o partition.Offset) int {
	for i, b := range m.batches {
		if baseOf(b) >= o {
			return i
		}
	}
	return len(m.batches)
}

// recovered adjusts the list to what a crash left, or says why that is wrong.
func (m *model) recovered(l *Log, r Recovery) error {
	switch {
	case r.Class > segment.Torn:
		return fmt.Errorf("class %s, cut %+v, faults %+v", r.Class, r.Cut, r.Faults)
	case r.End < m.synced:
		return fmt.Errorf("end %d is below %d, which was synced", r.End, m.synced)
	case r.End > m.end():
		return fmt.Errorf("end %d is above %d, which was never written", r.End, m.end())
	case r.Start > m.dropped:
		return fmt.Errorf("start %d is above %d", r.Start, m.dropped)
	}
	m.start = max(m.start, r.Start)
	m.batches = m.batches[m.index(m.start):]
	got, err := contents(l)
	if err != nil {
		return err
	}
	for len(got) > 0 && baseOf(got[0]) < m.start {
		got = got[1:] // a drop that was not durable
	}
	if n := m.index(r.End); len(got) != n {
		return fmt.Errorf("%d batches, want %d", len(got), n)
	}
	for i := range got {
		if !bytes.Equal(got[i], m.batches[i]) {
			return fmt.Errorf("batch %d differs", i)
		}
	}
	if r.SnapshotEnd < m.sealed || !bytes.Equal(r.Snapshot, m.states[r.SnapshotEnd]) {
		return fmt.Errorf("snapshot of %d is %q; sealed up to %d", r.SnapshotEnd, r.Snapshot, m.sealed)
	}
	m.batches = m.batches[:len(got)]
	follow(m.leader, r.Tail)
	m.synced = r.End
	return nil
}

// step does one random operation on both.
func (m *model) step(l *Log, rng *rand.Rand) error {
	switch p := rng.IntN(100); {
	case p < 45:
		return m.appendSome(l, rng)
	case p < 70:
		if err := l.Sync(); err != nil {
			return err
		}
		m.synced = m.end()
		if rng.IntN(2) == 0 {
			m.mark = l.Mark()
		}
		if rng.IntN(2) == 0 {
			m.leader.HW = m.end()
		}
		return nil
	case p < 78:
		return m.truncate(l, rng)
	case p < 86:
		return m.seal(l)
	case p < 90:
		o := m.start + partition.Offset(rng.IntN(int(m.end()-m.start)+1))
		m.dropped = max(m.dropped, o)
		if err := l.DropBefore(o); err != nil {
			return err
		}
		m.start = max(m.start, l.Start())
		m.batches = m.batches[m.index(m.start):]
		return nil
	default:
		return m.read(l, rng)
	}
}

func (m *model) appendSome(l *Log, rng *rand.Rand) error {
	var group [][]byte
	for range 1 + rng.IntN(4) {
		cut := len(m.batches)+len(group) == 0 || m.leader.Base == m.leader.End || rng.IntN(12) == 0
		if rng.IntN(4) == 0 {
			group = append(group, m.leader.Control(cut))
		} else {
			group = append(group, m.leader.Data(1+rng.IntN(5), 1+rng.IntN(3000), cut))
		}
	}
	m.batches = append(m.batches[:len(m.batches):len(m.batches)], group...)
	if err := l.Append(group); err != nil {
		return err
	}
	if l.End() != m.end() {
		return fmt.Errorf("end is %d, want %d", l.End(), m.end())
	}
	return nil
}

func (m *model) truncate(l *Log, rng *rand.Rand) error {
	low := max(m.leader.HW, m.sealed, m.start)
	first := m.index(low)
	if first == len(m.batches) {
		return nil
	}
	i := first + rng.IntN(len(m.batches)-first)
	to := baseOf(m.batches[i])
	m.synced = min(m.synced, to) // until the cut is durable, more may be there
	if err := l.Truncate(to); err != nil {
		return err
	}
	m.batches = m.batches[:i:i]
	m.synced = to
	follow(m.leader, l.Tail())
	return nil
}

func (m *model) seal(l *Log) error {
	for _, s := range l.Segments() {
		if s.State != StateClosed {
			continue
		}
		if s.End > m.leader.HW {
			return nil
		}
		_, sum, err := l.Digest(s.Base)
		if err != nil {
			return err
		}
		state := fmt.Appendf(nil, "state at %d", s.End)
		m.states[s.End] = state
		if err := l.MarkSealed(s.Base, sum, state); err != nil {
			return err
		}
		m.sealed = s.End
		m.leader.Base = l.Tail().SegmentBase // it may have been the one to go on in
		return nil
	}
	return nil
}

func (m *model) read(l *Log, rng *rand.Rand) error {
	if len(m.batches) == 0 {
		return nil
	}
	i := rng.IntN(len(m.batches))
	j := i + 1 + rng.IntN(len(m.batches)-i)
	h, err := batch.ParseHeader(m.batches[i])
	if err != nil {
		return err
	}
	from := partition.Offset(h.BaseOffset) + partition.Offset(rng.IntN(int(h.NextOffset()-h.BaseOffset)))
	limit := m.end()
	if j < len(m.batches) {
		limit = baseOf(m.batches[j])
	}
	got, err := readAll(l, from, limit, 1+rng.IntN(20000))
	if err != nil {
		return fmt.Errorf("read from %d to %d: %w", from, limit, err)
	}
	if want := bytes.Join(m.batches[i:j], nil); !bytes.Equal(got, want) {
		return fmt.Errorf("read from %d to %d gives %d bytes, want %d", from, limit, len(got), len(want))
	}
	if o, err := l.OffsetAt(h.AppendTime, m.end()); err != nil || o != partition.Offset(h.BaseOffset) {
		return fmt.Errorf("offset at %d is %d, want %d: %w", h.AppendTime, o, h.BaseOffset, err)
	}
	if at, err := l.At(from); err != nil || at.BaseOffset != h.BaseOffset {
		return fmt.Errorf("batch at %d is %d, want %d: %w", from, at.BaseOffset, h.BaseOffset, err)
	}
	return nil
}

// reopen recovers a log and checks it, twice: the second time must find the same.
func (m *model) reopen(t testing.TB, fsys vfs.FS) (*Log, error) {
	for range 2 {
		l, r, err := Open(t.Context(), m.config(fsys), m.evidence())
		if err != nil {
			return nil, err
		}
		if err := m.recovered(l, r); err != nil {
			return nil, err
		}
		// As after kill -9: nothing is closed.
		l.files.Close()
	}
	l, _, err := Open(t.Context(), m.config(fsys), m.evidence())
	return l, err
}

func TestLogIsAListThatSurvivesCrashes(t *testing.T) {
	for seed := range sample().models {
		if err := runModel(t, seed, 150); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func runModel(t testing.TB, seed uint64, steps int) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	fsys := newMem()
	m := newModel(t)
	m.pooled = seed%3 != 0
	l, _, err := Open(t.Context(), m.config(fsys), m.evidence())
	if err != nil {
		return err
	}
	for step := range steps {
		switch p := rng.IntN(40); {
		case p < 2: // power cut
			fsys = fsys.Crash(rng)
			if l, err = m.reopen(t, fsys); err != nil {
				return fmt.Errorf("step %d, after a crash: %w", step, err)
			}
		case p < 3: // clean stop
			if err := l.Close(); err != nil {
				return err
			}
			m.synced = m.end()
			fsys = fsys.CrashAll()
			if l, err = m.reopen(t, fsys); err != nil {
				return fmt.Errorf("step %d, after a clean stop: %w", step, err)
			}
			if l.End() != m.end() {
				return errors.New("a clean stop lost something")
			}
		default:
			if err := m.step(l, rng); err != nil {
				return fmt.Errorf("step %d: %w", step, err)
			}
		}
	}
	if err := l.Append([][]byte{m.leader.Data(1, 1, true)[:300]}); !fault.Is(err, fault.Internal) {
		return fmt.Errorf("half a batch is taken: %w", err)
	}
	return l.Close()
}
