package commit

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// knobs say how much the sampled tests try; SQ_CRASH=full (`make crash`) is for the whole of it.
type knobs struct {
	models, workloads uint64
	states            int
}

func sample() knobs {
	switch {
	case os.Getenv("SQ_CRASH") == "full":
		return knobs{models: 20000, workloads: 40, states: 20}
	case testing.Short():
		return knobs{models: 20, workloads: 1, states: 1}
	default:
		return knobs{models: 80, workloads: 2, states: 1}
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func replicaID(n int) partition.UUID { return partition.UUID{15: byte(n + 1)} }

func dirOf(id partition.UUID) string { return fmt.Sprintf("replicas/%d/log", id[15]) }

// inline is a pool that does its jobs at once, in the caller: a world has one thread and the same history for the same seed.
func inline() *workers.Pool {
	p := workers.New(1)
	p.Close()
	return p
}

// list is a log as a plain list of batches.
type list struct {
	id      partition.UUID
	leader  *segmenttest.Leader
	batches [][]byte
	end     partition.Offset // of batches
	acked   partition.Offset // durable by the committer's word
	dropped partition.Offset // what is below may be gone
	sealed  partition.Offset
	log     *wal.Log
	seat    *Seat
}

// world is a disk with some logs, a journal and a committer, all run by hand, and lists of what must be there.
type world struct {
	t      testing.TB
	mode   Mode
	logs   []*list
	fsys   vfs.FS
	made   bool // the journal was made and knows the logs
	j      *journal.Journal
	c      *Committer
	failed error
	lax    bool // recovery may find more than torn: the test has damaged something
}

func newWorld(t testing.TB, mode Mode, logs int) *world {
	w := &world{t: t, mode: mode}
	for i := range logs {
		w.logs = append(w.logs, &list{id: replicaID(i), leader: segmenttest.New(t)})
	}
	return w
}

// snapshot is the world's lists as they are now, with nothing open.
func (w *world) snapshot() *world {
	out := &world{t: w.t, mode: w.mode, made: w.made, lax: w.lax}
	for _, l := range w.logs {
		leader := *l.leader
		out.logs = append(out.logs, &list{
			id: l.id, leader: &leader, batches: l.batches, end: l.end, acked: l.acked, dropped: l.dropped, sealed: l.sealed,
		})
	}
	return out
}

// open starts a life on what a file system holds, and compares what it finds with the lists.
func (w *world) open(fsys vfs.FS) error {
	w.fsys = fsys
	j, state, err := w.openJournal(fsys)
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	w.j = j
	if err := Replay(fsys, j, dirOf, discard()); err != nil {
		return err
	}
	files := segment.NewFiles(fsys, 2)
	spare, err := pool.New(fsys, "pool", pool.Limits{FileBytes: 1 << 10, PoolBytes: 256 << 10})
	if err != nil {
		return err
	}
	files.Recycle(spare)
	w.c, err = ByHand(Config{
		Journal: j, Workers: inline(), Mode: w.mode, Log: discard(), Metrics: prometheus.NewRegistry(),
		Limits: Limits{RingBytes: journal.MinRingBytes, SmallBytes: 6 << 10}, Failed: func(err error) { w.failed = errors.Join(w.failed, err) },
	})
	if err != nil {
		return err
	}
	for i, l := range w.logs {
		if _, ok := state.Replicas[l.id]; !ok {
			if w.made {
				return fmt.Errorf("log %d is forgotten", i)
			}
			if err := j.Put(journal.Created(l.id, partition.ID{}, journal.Origin{})); err != nil {
				return err
			}
		}
	}
	if err := j.Sync(); err != nil {
		return err
	}
	w.made = true
	for i, l := range w.logs {
		if err := w.openLog(l, files); err != nil {
			return fmt.Errorf("log %d: %w", i, err)
		}
	}
	return nil
}

func (w *world) openJournal(fsys vfs.FS) (*journal.Journal, journal.State, error) {
	return journal.Open(journal.Config{FS: fsys, Dir: "journal", Create: !w.made, Log: discard(), Limits: journal.Limits{CheckpointBytes: 4 << 10}})
}

func (w *world) openLog(l *list, files *segment.Files) error {
	kept, _ := w.j.Replica(l.id)
	log, r, err := wal.Open(w.t.Context(), wal.Config{
		FS: w.fsys, Dir: dirOf(l.id), Tag: segmenttest.Tag, Log: discard(), Files: files,
		Barrier: func(m segment.Mark) error {
			return errors.Join(w.j.Put(journal.Mark(l.id, m)), w.j.Sync())
		},
	}, wal.Evidence{HW: kept.HW, Mark: kept.Mark})
	if err != nil {
		return err
	}
	l.log, l.seat = log, w.c.Join(l.id, log)
	if w.lax {
		return nil
	}
	return l.recovered(log, r)
}

// recovered adjusts the list to what a crash left, or says why that is wrong.
func (l *list) recovered(log *wal.Log, r wal.Recovery) error {
	switch {
	case r.Class > segment.Torn:
		return fmt.Errorf("class %s, cut %+v, faults %+v", r.Class, r.Cut, r.Faults)
	case r.End < l.acked:
		return fmt.Errorf("end %d is below %d, which was acknowledged", r.End, l.acked)
	case r.End > l.end:
		return fmt.Errorf("end %d is above %d, which was never written", r.End, l.end)
	case r.Start > l.dropped:
		return fmt.Errorf("start %d is above %d", r.Start, l.dropped)
	}
	kept := l.batches
	for len(kept) > 0 && baseOf(kept[len(kept)-1]) >= r.End {
		kept = kept[:len(kept)-1]
	}
	for len(kept) > 0 && baseOf(kept[0]) < r.Start {
		kept = kept[1:]
	}
	got, err := contents(log)
	if err != nil {
		return err
	}
	for len(got) > 0 && (len(kept) == 0 || baseOf(got[0]) < baseOf(kept[0])) {
		got = got[1:] // a drop that was not durable
	}
	if len(got) != len(kept) {
		return fmt.Errorf("%d batches, want %d", len(got), len(kept))
	}
	for i := range got {
		if !bytes.Equal(got[i], kept[i]) {
			return fmt.Errorf("batch %d, at offset %d, differs", i, baseOf(kept[i]))
		}
	}
	l.batches = kept
	l.follow(r.Tail)
	l.acked = r.End
	return nil
}

// follow has the leader go on where a log ends, in a new epoch: bytes that come back from before are never the same.
func (l *list) follow(t wal.Tail) {
	p := l.leader
	p.End, p.Base, p.Chain = t.End, t.SegmentBase, t.Chain
	p.Epoch = max(p.Epoch, uint64(t.LastEpoch)) + 1
	p.AppendTime = max(p.AppendTime, t.LastAppendTime)
	l.end = t.End
}

func baseOf(msg []byte) partition.Offset {
	h, err := batch.ParseHeader(msg)
	if err != nil {
		panic(err)
	}
	return partition.Offset(h.BaseOffset)
}

func contents(l *wal.Log) ([][]byte, error) {
	var out [][]byte
	err := l.Scan(l.Start(), func(_ batch.Header, msg []byte) error {
		out = append(out, bytes.Clone(msg))
		return nil
	})
	return out, err
}

// commit has logs made durable together.
func (w *world) commit(logs ...*list) error {
	var err error
	waiting := len(logs)
	for _, l := range logs {
		end := l.end
		l.seat.Sync(func(e error) {
			waiting--
			if err = errors.Join(err, e); e == nil {
				l.acked = max(l.acked, end)
			}
		})
	}
	for range 100 {
		if waiting == 0 {
			return errors.Join(err, w.failed)
		}
		for w.c.round() {
			continue
		}
	}
	return fmt.Errorf("%d syncs are never answered", waiting)
}

func (l *list) append(size int, cut bool) error {
	cut = cut || l.leader.Base == l.leader.End
	msg := l.leader.Data(1, size, cut)
	l.batches = append(l.batches[:len(l.batches):len(l.batches)], msg)
	l.end = l.leader.End
	return l.log.Append([][]byte{msg})
}

// step does one random operation.
func (w *world) step(rng *rand.Rand) error {
	l := w.logs[rng.IntN(len(w.logs))]
	switch p := rng.IntN(100); {
	case p < 30: // several at once
		var group []*list
		for _, l := range w.logs {
			if rng.IntN(3) > 0 {
				group = append(group, l)
				for range 1 + rng.IntN(3) {
					if err := l.append(1+rng.IntN(1500), rng.IntN(8) == 0); err != nil {
						return err
					}
				}
			}
		}
		return w.commit(group...)
	case p < 45: // a lone one
		if err := l.append(1+rng.IntN(1500), rng.IntN(8) == 0); err != nil {
			return err
		}
		return w.commit(l)
	case p < 55: // a large one beside a small one
		other := w.logs[rng.IntN(len(w.logs))]
		if err := errors.Join(l.append(7<<10, false), other.append(100, false)); err != nil {
			return err
		}
		if other == l {
			return w.commit(l)
		}
		return w.commit(l, other)
	case p < 63: // written only
		return l.append(1+rng.IntN(3000), rng.IntN(10) == 0)
	case p < 70:
		return w.saveMarks()
	case p < 80:
		return l.truncate(rng)
	case p < 85:
		l.leader.HW = l.acked
		return nil
	case p < 95:
		l.leader.HW = l.acked
		return l.sealAndDrop(rng)
	default:
		if ring := w.c.mu.ring; ring != nil {
			w.c.startCheckpoint(ring)
		}
		return w.failed
	}
}

// saveMarks is what the roster does each second.
func (w *world) saveMarks() error {
	for _, l := range w.logs {
		hw := min(l.leader.HW, l.log.Persisted())
		if err := w.j.Put(journal.Mark(l.id, l.log.Mark()), journal.HW(l.id, hw)); err != nil {
			return err
		}
	}
	return w.j.Sync()
}

func (l *list) truncate(rng *rand.Rand) error {
	low := max(l.leader.HW, l.sealed)
	first := 0
	for first < len(l.batches) && baseOf(l.batches[first]) < low {
		first++
	}
	if first == len(l.batches) {
		return nil
	}
	i := first + rng.IntN(len(l.batches)-first)
	to := baseOf(l.batches[i])
	l.acked = min(l.acked, to)
	if err := l.log.Truncate(to); err != nil {
		return err
	}
	l.batches = l.batches[:i:i]
	l.acked = to
	l.follow(l.log.Tail())
	return nil
}

func (l *list) sealAndDrop(rng *rand.Rand) error {
	for _, s := range l.log.Segments() {
		if s.State != wal.StateClosed {
			continue
		}
		if s.End > l.leader.HW {
			break
		}
		_, sum, err := l.log.Digest(s.Base)
		if err != nil {
			return err
		}
		if err := l.log.MarkSealed(s.Base, sum, []byte("state")); err != nil {
			return err
		}
		l.sealed = s.End
		l.leader.Base = l.log.Tail().SegmentBase
	}
	if rng.IntN(2) == 0 {
		l.dropped = l.sealed
		return l.log.DropBefore(l.sealed)
	}
	return nil
}

// survivors gives crash states of one moment.
func survivors(inner *memfs.FS, moment uint64, random int) []*memfs.FS {
	out := []*memfs.FS{inner.CrashNone(), inner.CrashAll()}
	for i := range random {
		out = append(out, inner.Crash(rand.New(rand.NewPCG(moment, uint64(i)))))
	}
	return out
}

// check recovers what a crash has left twice; the second time is after another power cut, which may take nothing that the first has shown.
func (w *world) check(fsys *memfs.FS) error {
	s := w.snapshot()
	if err := s.open(fsys); err != nil {
		return err
	}
	again := s.snapshot()
	if err := again.open(fsys.CrashNone()); err != nil {
		return fmt.Errorf("a second time: %w", err)
	}
	return nil
}

func isChange(c faultfs.Call) bool {
	return c.Op&(faultfs.Read|faultfs.List|faultfs.Stat|faultfs.Open|faultfs.Usage) == 0
}

func newFaulty(inner *memfs.FS) *faultfs.FS { return faultfs.New(inner, clock.Real()) }
