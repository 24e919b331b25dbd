package writer

import (
	"fmt"
	"log/slog"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment/segmenttest"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// rig is a Writer whose workers and committer are run by hand, and what its Host has heard.
type rig struct {
	t      *testing.T
	inner  *memfs.FS
	faulty *faultfs.FS
	log    *wal.Log
	leader *segmenttest.Leader
	*Writer
	pool      *workers.Pool
	committer *commit.Committer
	heard     []string
}

const logDir = "log"

func newRig(t *testing.T) *rig {
	t.Helper()
	inner := memfs.New()
	r := &rig{t: t, inner: inner, faulty: faultfs.New(inner, clock.Real()), leader: segmenttest.New(t), pool: workers.ByHand()}
	j, _, err := journal.Open(journal.Config{FS: r.faulty, Dir: "journal", Create: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r.committer, err = commit.ByHand(commit.Config{
		Journal: j, Workers: r.pool, Mode: commit.Never, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	r.log, _, err = wal.Open(t.Context(), wal.Config{FS: r.faulty, Dir: logDir, Tag: segmenttest.Tag}, wal.Evidence{})
	if err != nil {
		t.Fatal(err)
	}
	r.Writer = New(Config{
		Log: r.log, Seat: r.committer.Join(partition.UUIDOf(1, 1), r.log), Workers: r.pool, Clock: clock.Real(),
		SyncSeconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "x"}),
		Post:        func(call func()) bool { call(); return true }, Host: r,
	})
	return r
}

func (r *rig) hear(format string, args ...any) {
	r.heard = append(r.heard, fmt.Sprintf(format, args...))
}

func (r *rig) Written(_ uint64, end partition.Offset)     { r.hear("written %d", end) }
func (r *rig) Persisted(gen uint64, end partition.Offset) { r.hear("persisted %d of %d", end, gen) }
func (r *rig) Unwritten(from partition.Offset, _ error)   { r.hear("unwritten %d", from) }
func (r *rig) Failed(err error)                           { r.hear("failed: %v", err) }
func (r *rig) publish(sync bool) {
	r.t.Helper()
	msg := r.leader.Data(1, 1000, r.leader.End == 0)
	r.Append(7, r.leader.End, [][]byte{msg}, []func(){func() { r.hear("released %d", r.leader.End) }}, false)
	if sync {
		r.Sync(7, r.leader.End)
	}
	r.Dispatch()
}

// work has one job of a worker done, then whatever the committer has to do.
func (r *rig) work() {
	r.t.Helper()
	if r.pool.Waiting() == 0 {
		r.t.Fatal("no worker has anything to do")
	}
	r.pool.Step(0)
	for r.committer.Step() {
		continue
	}
}

func (r *rig) want(heard ...string) {
	r.t.Helper()
	if diff := cmp.Diff(heard, r.heard); diff != "" {
		r.t.Fatalf("heard (-want +got):\n%s", diff)
	}
	r.heard = nil
}

// survives tells where the log ends after a power cut.
func (r *rig) survives() partition.Offset {
	r.t.Helper()
	l, recovery, err := wal.Open(r.t.Context(), wal.Config{FS: r.inner.CrashNone(), Dir: logDir, Tag: segmenttest.Tag}, wal.Evidence{})
	if err != nil {
		r.t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		r.t.Fatal(err)
	}
	return recovery.End
}

// While a sync is under way what comes is written; persisted is only what was written before the sync was asked for. A cut waits.
func TestAppendsGoAheadOfASync(t *testing.T) {
	r := newRig(t)
	r.publish(true)
	r.work()
	r.want("released 1", "written 1")
	if r.Idle() || !r.Ahead() || !r.Busy() {
		t.Fatalf("with a sync under way: idle %v, ahead %v, busy %v", r.Idle(), r.Ahead(), r.Busy())
	}
	syncing := r.pool.Waiting()
	r.publish(true)
	r.Truncate(2)
	r.Dispatch()
	if r.pool.Waiting() != syncing+1 {
		t.Fatal("the second append is not with a worker")
	}
	r.pool.Step(1) // the append, beside the sync
	r.want("released 2", "written 2")
	r.Dispatch()
	if r.pool.Waiting() != syncing || r.Ahead() {
		t.Fatal("something is done beside a sync that is no append")
	}
	r.work() // the sync
	r.want("persisted 1 of 7")
	if end := r.survives(); end < 1 {
		t.Fatalf("%d survives a power cut", end)
	}
	r.Dispatch()
	for r.committer.Step() {
		continue
	}
	for r.pool.Waiting() > 0 {
		r.work()
		r.Dispatch()
	}
	r.want("persisted 2 of 7")
	if end := r.survives(); end != 2 || r.log.End() != 2 || r.Busy() {
		t.Fatalf("at the end %d survives, the log ends at %d, busy %v", end, r.log.End(), r.Busy())
	}
}

// The Host cuts the log when it hears that there was no room, and then hears nothing any more of what was persisted before. So that comes first.
func TestNoRoomIsToldLast(t *testing.T) {
	full := faultfs.Rule{Ops: faultfs.Write, Path: "*.log", Count: 1, Err: syscall.ENOSPC}
	t.Run("beside a sync", func(t *testing.T) {
		r := newRig(t)
		r.publish(true)
		r.work()
		r.want("released 1", "written 1")
		r.publish(true)
		r.faulty.Add(full)
		r.pool.Step(1)
		r.want("released 2")
		r.publish(true) // which is not done either
		r.work()
		r.want("persisted 1 of 7")
		r.drain()
		r.want("persisted 1 of 7", "released 3", "unwritten 1")
	})
	t.Run("behind an append of the same job", func(t *testing.T) {
		r := newRig(t)
		r.publish(false)
		r.pool.Step(0)
		r.want("released 1", "written 1")
		r.faulty.Add(full)
		r.publish(true)
		r.pool.Step(0)
		r.want("released 2")
		r.drain()
		r.want("persisted 1 of 7", "unwritten 1")
		if end := r.survives(); end != 1 {
			t.Errorf("%d survives a power cut", end)
		}
	})
}

// drain does what there is to do.
func (r *rig) drain() {
	for r.committer.Step() || r.pool.Waiting() > 0 {
		if r.pool.Waiting() > 0 {
			r.pool.Step(0)
		}
		r.Dispatch()
	}
}
