package replica

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/durability"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

const logDir = "replica/log"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	theTopic   = partition.UUIDOf(1, 2)
	theReplica = partition.UUIDOf(3, 4)
	self       = partition.Member{Broker: 1, Replica: theReplica}
)

// rig is one replica on a disk in memory, with the topology played by hand.
type rig struct {
	t           testing.TB
	mem         *memfs.FS
	wrap        func(*memfs.FS) vfs.FS // nil = none
	clock       *clock.Manual
	metrics     *prometheus.Registry
	journal     *journal.Journal
	commit      *commit.Committer
	redo        commit.Mode
	workers     *workers.Pool
	r           *Replica
	incarnation partition.Incarnation
	topic       topology.Topic
	sync        durability.Policy
	limits      Limits
	register    *register
	failed      chan error
	full        bool
}

// register is the key of the assignment.
type register struct {
	mu struct {
		sync.Mutex
		value    topology.Assignment
		revision int64
	}
	// activate, if set, decides what a CAS does: whether it is applied, and whether its caller hears so.
	activate func() (apply, hear bool)
}

func (g *register) Activate(_ context.Context, _ partition.ID, read topology.Assignment, revision int64, start partition.Offset) bool {
	apply, hear := true, true
	if g.activate != nil {
		apply, hear = g.activate()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !apply || g.mu.revision != revision {
		return false
	}
	g.mu.value = read.Activate(start)
	g.mu.revision++
	return hear
}

func (g *register) Reread(context.Context, partition.ID) (topology.Assignment, int64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mu.value, g.mu.revision, nil
}

// nominate writes the next epoch for an incarnation.
func (g *register) nominate(incarnation partition.Incarnation) (topology.Assignment, int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	leader := topology.Leader{Broker: self.Broker, Replica: self.Replica, Incarnation: incarnation}
	if g.mu.value.Epoch == 0 {
		g.mu.value = topology.First(leader, []partition.Member{self})
	} else {
		g.mu.value = g.mu.value.Nominate(leader, []partition.Member{self})
	}
	g.mu.revision++
	return g.mu.value, g.mu.revision
}

func newRig(t testing.TB, adjust ...func(*rig)) *rig {
	g := &rig{
		t: t, mem: memfs.New(), clock: clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)), register: &register{},
		topic: topology.Topic{ID: theTopic, Partitions: 1, MapVersion: 1, SegmentBytes: 1 << 20, Durability: topology.DurabilityQuorum},
	}
	for _, f := range adjust {
		f(g)
	}
	t.Cleanup(g.kill)
	return g
}

// open starts the next life on what the disk holds.
func (g *rig) open() error {
	g.t.Helper()
	g.incarnation++
	var disk vfs.FS = g.mem
	if g.wrap != nil {
		disk = g.wrap(g.mem)
	}
	j, _, err := journal.Open(journal.Config{FS: disk, Dir: "journal", Create: true, Limits: journal.Limits{CheckpointBytes: 4 << 10}})
	if err != nil {
		return err
	}
	logs := func(partition.UUID) string { return logDir }
	if err := commit.Replay(disk, j, logs, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if _, ok := j.Replica(theReplica); !ok {
		if err := j.Put(journal.Created(theReplica, partition.ID{Topic: theTopic}, journal.Origin{})); err != nil {
			return err
		}
		if err := j.Sync(); err != nil {
			return err
		}
	}
	kept, _ := j.Replica(theReplica)
	g.metrics = prometheus.NewRegistry()
	g.journal, g.workers, g.failed = j, workers.New(4), make(chan error, 1)
	failed := g.failed
	g.commit, err = commit.New(commit.Config{
		Journal: j, Workers: g.workers, Mode: g.redo, Limits: commit.Limits{RingBytes: 64 << 10}, Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	turn, err := compact.NewTurn(g.clock, compact.RateMin, compact.MemoryMin)
	if err != nil {
		return err
	}
	g.r, err = Open(context.Background(), Config{
		Partition: partition.ID{Topic: theTopic}, Self: self, Incarnation: g.incarnation, Dir: logDir, Sync: g.sync, Topic: g.topic, Limits: g.limits,
	}, Deps{
		FS: disk, Journal: j, Workers: g.workers, Commit: g.commit, Activator: g.register, Clock: g.clock, Metrics: NewMetrics(g.metrics),
		Log: slog.New(slog.DiscardHandler), Refusal: g.refusal, NoRoom: func() {},
		Failed: func(err error) { failed <- err }, Compact: turn,
	}, kept)
	if err != nil {
		_ = g.commit.Close() // nobody has joined
		g.workers.Close()
	}
	return err
}

// start opens, nominates and waits until the replica leads.
func (g *rig) start() *rig {
	g.t.Helper()
	if err := g.open(); err != nil {
		g.t.Fatal(err)
	}
	g.elect()
	return g
}

func (g *rig) elect() {
	g.t.Helper()
	a, revision := g.register.nominate(g.incarnation)
	g.r.Assign(a, revision)
	g.await(func(s State) bool { return s.Active })
}

// await waits until the state fits.
func (g *rig) await(fits func(State) bool) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		changed := g.r.Changed()
		if fits(g.r.State()) {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			g.t.Fatalf("state stays %+v", g.r.State())
		}
	}
}

// tick moves the clock and lets the replica look.
func (g *rig) tick(d time.Duration) {
	g.clock.Advance(d)
	g.r.Tick()
	_, _ = ask(context.Background(), g.r, false, func(answer func(struct{}, error)) { answer(struct{}{}, nil) })
}

// until lets seconds pass until a condition holds.
func (g *rig) until(what string, holds func() bool) {
	g.t.Helper()
	for range 1000 {
		if holds() {
			return
		}
		g.tick(time.Second)
	}
	g.t.Fatalf("after 1000 s: no %s, state %+v", what, g.r.State())
}

// kill stops the process without a word to the disk that survives, if a crash took it before.
func (g *rig) kill() {
	if g.r != nil {
		g.r.Close()
		g.r = nil
		_ = g.commit.Close() // a disk that failed is what the test is about
		g.workers.Close()
		g.journal.Close()
	}
}

// crash loses power: what was not synced may be gone. The next open finds the rest.
func (g *rig) crash(rng *rand.Rand) {
	survivor := g.mem.Crash(rng)
	g.kill()
	g.mem = survivor
}

// crashAll is kill -9: everything that was written is there.
func (g *rig) crashAll() {
	survivor := g.mem.CrashAll()
	g.kill()
	g.mem = survivor
}

// message makes a batch of one record a value.
func message(o batch.BuildOptions, values ...string) []byte {
	var b batch.Builder
	b.Reset()
	for _, v := range values {
		if err := b.Add(batch.Record{Value: []byte(v), Timestamp: 1}); err != nil {
			panic(err)
		}
	}
	msg, err := b.Build(nil, o)
	if err != nil {
		panic(err)
	}
	return msg
}

type result struct {
	Published
	err error
}

// send publishes and gives where the answer will be.
func (g *rig) send(p Publish) <-chan result {
	answer := make(chan result, 1)
	p.Done = func(p Published, err error) { answer <- result{p, err} }
	g.r.Publish(p)
	return answer
}

func (g *rig) publish(values ...string) (Published, error) {
	return g.sendWait(Publish{Msg: message(batch.BuildOptions{}, values...)})
}

func (g *rig) sendWait(p Publish) (Published, error) {
	select {
	case r := <-g.send(p):
		return r.Published, r.err
	case <-time.After(20 * time.Second):
		g.t.Fatal("a publish is not answered")
		return Published{}, nil
	}
}

func (g *rig) mustPublish(values ...string) Published {
	g.t.Helper()
	p, err := g.publish(values...)
	if err != nil {
		g.t.Fatal(err)
	}
	return p
}

// record is one that was read.
type record struct {
	Offset uint64
	Value  string
}

// read gives all records from an offset to the high watermark.
func (g *rig) read(from partition.Offset) []record {
	g.t.Helper()
	var out []record
	var reader batch.Reader
	for hw := g.r.State().HighWatermark; from < hw; {
		got, err := g.r.Fetch(context.Background(), Fetch{Offset: from})
		if err != nil {
			g.t.Fatalf("fetch at %d: %v", from, err)
		}
		if got.NextOffset <= from {
			g.t.Fatalf("fetch at %d goes on at %d", from, got.NextOffset)
		}
		body := chunkBytes(g.t, got)
		for msg, err := range batch.Each(body) {
			if err != nil {
				g.t.Fatal(err)
			}
			h, err := batch.ParseHeader(msg)
			if err != nil {
				g.t.Fatal(err)
			}
			if h.IsControl() {
				continue
			}
			if err := reader.Reset(msg); err != nil {
				g.t.Fatal(err)
			}
			var r batch.Record
			for i := range reader.Len() {
				reader.Record(i, &r)
				if at := reader.Offset(i); at >= uint64(from) {
					out = append(out, record{at, string(r.Value)})
				}
			}
		}
		from = got.NextOffset
	}
	return out
}

func chunkBytes(t testing.TB, got Fetched) []byte {
	t.Helper()
	defer got.Chunk.Close()
	body := make([]byte, got.Chunk.Len())
	if _, err := got.Chunk.ReadAt(body, 0); err != nil {
		t.Fatal(err)
	}
	return body
}

func values(n int, prefix string) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// refusal is the disk's, which the test sets: what may not be written.
func (g *rig) refusal(appends bool) error {
	if g.full && !appends {
		return fault.Errorf(fault.DiskFull, "nearly full")
	}
	return nil
}
