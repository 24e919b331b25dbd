package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// cluster is some replicas of one partition, each with its own disk in memory, a register, and a network. All of it is driven by hand, on the
// test's thread: nothing happens but in settle and until, and the same always happens.
type cluster struct {
	t        testing.TB
	clock    *clock.Manual
	topic    topology.Topic
	register register
	nodes    []*clusterNode
	net      []func() // messages under way
	cut      map[[2]partition.NodeID]bool
	drop     func(m peer.Message) bool // if set, decides about each message
	rate     *outbox.Rate
}

type clusterNode struct {
	c           *cluster
	self        partition.Member
	mem         *memfs.FS
	wrap        func(*memfs.FS) vfs.FS // nil = none
	incarnation partition.Incarnation
	journal     *journal.Journal
	commit      *commit.Committer
	workers     *workers.Pool
	errands     *agenda
	r           *Replica // nil = down
	failure     error
	stuck       bool // its disk does not answer a sync
}

// agenda is an errand.Runner of the cluster's time.
type agenda struct {
	c     *cluster
	calls []func(context.Context)
	due   []appointment
}

type appointment struct {
	at time.Time
	do func()
}

func (a *agenda) Go(call func(context.Context)) { a.calls = append(a.calls, call) }
func (a *agenda) After(wait time.Duration, do func()) {
	a.due = append(a.due, appointment{a.c.clock.Now().Add(wait), do})
}
func (a *agenda) Await(ready func() bool) { a.c.until("answer", ready) }
func (a *agenda) Stop()                   { a.calls, a.due = nil, nil }
func (a *agenda) Wait()                   {}

func (a *agenda) run() (ran bool) {
	calls, due := a.calls, a.due
	a.calls, a.due = nil, nil
	for _, call := range calls {
		call(context.Background())
	}
	for _, d := range due {
		if d.at.After(a.c.clock.Now()) {
			a.due = append(a.due, d)
			continue
		}
		d.do()
		ran = true
	}
	return ran || len(calls) > 0
}

// newCluster makes a cluster of n, all of them running. Nobody leads.
func newCluster(t testing.TB, n int, adjust ...func(*cluster)) *cluster {
	c := &cluster{
		t: t, clock: clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		topic: topology.Topic{ID: theTopic, Partitions: 1, MapVersion: 1, SegmentBytes: 1 << 20, Durability: topology.DurabilityQuorum},
	}
	c.cut = map[[2]partition.NodeID]bool{}
	for _, f := range adjust {
		f(c)
	}
	for i := range n {
		c.add(i + 1)
	}
	return c
}

// add starts one more broker, with a number.
func (c *cluster) add(id int) *clusterNode {
	n := &clusterNode{c: c, mem: memfs.New()}
	n.self = partition.Member{Broker: partition.NodeID(id), Replica: partition.UUIDOf(9, uint64(id))}
	c.nodes = append(c.nodes, n)
	n.start()
	return n
}

// start begins a life on what the disk holds.
func (n *clusterNode) start() {
	n.c.t.Helper()
	if err := n.open(); err != nil {
		n.c.t.Fatalf("open %d: %v", n.self.Broker, err)
	}
}

func (n *clusterNode) open() error {
	n.incarnation++
	var disk vfs.FS = n.mem
	if n.wrap != nil {
		disk = n.wrap(n.mem)
	}
	j, _, err := journal.Open(journal.Config{FS: disk, Dir: "journal", Create: true})
	if err != nil {
		return err
	}
	if err := commit.Replay(disk, j, install.Logs(disk, func(partition.UUID) string { return path.Dir(logDir) }), slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if _, ok := j.Replica(n.self.Replica); !ok {
		if err := j.Put(journal.Created(n.self.Replica, partition.ID{Topic: theTopic}, journal.Origin{})); err != nil {
			return err
		}
		if err := j.Sync(); err != nil {
			return err
		}
	}
	kept, _ := j.Replica(n.self.Replica)
	n.journal, n.workers, n.errands, n.failure = j, workers.ByHand(), &agenda{c: n.c}, nil
	n.commit, err = commit.ByHand(commit.Config{
		Journal: j, Workers: n.workers, Limits: commit.Limits{RingBytes: 64 << 10}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	log, kept, err := install.Open(disk, path.Dir(logDir), kept)
	if err != nil {
		return err
	}
	n.r, err = Open(context.Background(), Config{
		Partition: partition.ID{Topic: theTopic}, Self: n.self, Incarnation: n.incarnation, Dir: log, Topic: n.c.topic,
	}, Deps{
		FS: disk, Journal: j, Workers: n.workers, Commit: n.commit, Activator: &n.c.register, Peers: n, CatchUp: n.c.rate, Clock: n.c.clock, Errands: n.errands,
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler), Refusal: func(bool) error { return nil },
		NoRoom: func() {}, Failed: func(err error) { n.failure = err },
	}, kept)
	if err != nil {
		return err
	}
	return install.Clean(disk, path.Dir(logDir))
}

// kill is kill -9: what was written is there, what was not told to the disk is not.
func (n *clusterNode) kill() { n.r, n.mem = nil, n.mem.CrashAll() }

// power is a power cut: what was not synced may be gone.
func (n *clusterNode) power(rng *rand.Rand) { n.r, n.mem = nil, n.mem.Crash(rng) }

// step does one thing of everything that waits in a node.
func (n *clusterNode) step() (did bool) {
	if n.r == nil {
		return false
	}
	if errors.Is(n.failure, ErrInstalled) { // as the roster does
		n.incarnation--
		n.start()
		n.c.tell()
		return true
	}
	did = n.r.Due()
	n.r.Step()
	did = n.errands.run() || did
	for n.workers.Waiting() > 0 {
		n.workers.Step(0)
		did = true
	}
	return !n.stuck && n.commit.Step() || did
}

// settle does everything that waits, messages included, until nothing does.
func (c *cluster) settle() {
	for did := true; did; {
		did = false
		for _, n := range c.nodes {
			did = n.step() || did
		}
		net := c.net
		c.net = nil
		for _, arrive := range net {
			arrive()
			did = true
		}
	}
}

// Send implements outbox.Peers.
func (n *clusterNode) Send(m peer.Message) {
	body := bodyOf(m)
	if n.c.cut[[2]partition.NodeID{m.From.Broker, m.To.Broker}] || n.c.drop != nil && n.c.drop(m) {
		return
	}
	n.c.net = append(n.c.net, func() {
		for _, to := range n.c.nodes {
			if to.self == m.To && to.r != nil {
				to.r.Deliver(deliveryOf(n.c.t, m, body))
			}
		}
	})
}

// Room implements outbox.Peers.
func (n *clusterNode) Room(partition.NodeID) int { return 8 << 20 }

// bodyOf reads a message's body and lets go of it.
func bodyOf(m peer.Message) []byte {
	if m.Body == nil {
		return nil
	}
	defer m.Body.Close()
	var b bytes.Buffer
	if _, err := m.Body.WriteTo(&b); err != nil {
		return nil
	}
	return b.Bytes()
}

// deliveryOf is what peer makes of a message that came. What is delivered is overwritten when it is released (R17).
func deliveryOf(t testing.TB, m peer.Message, body []byte) peer.Delivery {
	var entries []quorum.Entry
	if _, ok := m.Quorum.(quorum.Install); ok {
		return delivered(t, m, nil, body)
	}
	for msg, err := range batch.Each(body) {
		if err != nil {
			t.Errorf("body of %T: %v", m.Quorum, err)
			break
		}
		h, err := batch.ParseHeader(msg)
		if err != nil || batch.CheckBody(msg) != nil {
			t.Errorf("body of %T: damaged", m.Quorum)
			break
		}
		entries = append(entries, quorum.Entry{Header: h, Msg: msg})
	}
	return delivered(t, m, entries, body)
}

func delivered(t testing.TB, m peer.Message, entries []quorum.Entry, body []byte) peer.Delivery {
	switch q := m.Quorum.(type) {
	case quorum.Append:
		q.Entries = entries
		m.Quorum = q
	case quorum.Fetched:
		q.Entries = entries
		m.Quorum = q
	}
	if q, ok := m.Quorum.(quorum.Install); ok {
		q.Part = body
		m.Quorum = q
	}
	m.Body = nil
	released := false
	return peer.Delivery{Message: m, Release: func() {
		if released {
			t.Error("a delivery is released twice")
		}
		released = true
		clear(body)
	}}
}

// members are the first n brokers.
func (c *cluster) members(nodes ...*clusterNode) []partition.Member {
	var out []partition.Member
	for _, n := range nodes {
		out = append(out, n.self)
	}
	return out
}

// nominate writes the next epoch, led by a node, and tells everybody.
func (c *cluster) nominate(leader *clusterNode, members ...*clusterNode) {
	if len(members) == 0 {
		members = c.nodes
	}
	c.register.mu.Lock()
	l := leaderOf(leader)
	if c.register.mu.value.Epoch == 0 {
		c.register.mu.value = topology.First(l, c.members(members...))
	} else {
		c.register.mu.value = c.register.mu.value.Nominate(l, c.members(members...))
	}
	c.register.mu.revision++
	c.register.mu.Unlock()
	c.tell()
}

// tell has everybody hear what the register says.
func (c *cluster) tell() {
	a, revision, _ := c.register.Reread(context.Background(), partition.ID{})
	for _, n := range c.nodes {
		if n.r != nil {
			n.r.Assign(a, revision)
		}
	}
}

// elect nominates and waits until the node leads.
func (c *cluster) elect(leader *clusterNode, members ...*clusterNode) {
	c.t.Helper()
	c.nominate(leader, members...)
	c.until(fmt.Sprintf("leadership of %d", leader.self.Broker), func() bool { return leader.r.Active() })
}

// any does one thing that waits somewhere, if there is one where it looks.
func (c *cluster) any(rng *rand.Rand) {
	n := c.nodes[rng.IntN(len(c.nodes))]
	switch rng.IntN(4) {
	case 0:
		n.r.Step()
	case 1:
		if i := n.workers.Waiting(); i > 0 {
			n.workers.Step(rng.IntN(i))
		}
	case 2:
		n.commit.Step()
	case 3:
		if len(c.net) > 0 {
			arrive := c.net[0]
			c.net = c.net[1:]
			arrive()
		}
	}
}

// until lets time pass, 20 ms at a step, until a condition holds.
func (c *cluster) until(what string, holds func() bool) {
	c.t.Helper()
	for range 20_000 {
		c.settle()
		if holds() {
			return
		}
		c.pass(20 * time.Millisecond)
	}
	for _, n := range c.nodes {
		if n.r != nil {
			c.t.Logf("%d: %v %+v %+v", n.self.Broker, n.failure, n.r.State(), n.r.core.Report())
		}
	}
	c.t.Fatalf("in 400 s: no %s", what)
}

// pass moves the clock and lets everybody look.
func (c *cluster) pass(d time.Duration) {
	c.clock.Advance(d)
	for _, n := range c.nodes {
		if n.r != nil {
			n.r.Tick()
		}
	}
	c.settle()
}

// link cuts or mends the way between two nodes, both directions.
func (c *cluster) link(a, b *clusterNode, up bool) {
	c.cut[[2]partition.NodeID{a.self.Broker, b.self.Broker}] = !up
	c.cut[[2]partition.NodeID{b.self.Broker, a.self.Broker}] = !up
}

// publish sends one batch and gives where the answer will be.
func (n *clusterNode) publish(o batch.BuildOptions, values ...string) <-chan result {
	answer := make(chan result, 1)
	n.r.Publish(Publish{Msg: message(o, values...), Done: func(p Published, err error) { answer <- result{p, err} }})
	return answer
}

// mustPublish publishes batches of one record each and waits for the acks.
func (n *clusterNode) mustPublish(values ...string) {
	n.c.t.Helper()
	var answers []<-chan result
	for _, v := range values {
		answers = append(answers, n.publish(batch.BuildOptions{}, v))
	}
	for i, a := range answers {
		n.c.until("ack", func() bool { return len(a) > 0 })
		if r := <-a; r.err != nil {
			n.c.t.Fatalf("publish %q to %d: %v", values[i], n.self.Broker, r.err)
		}
	}
}

// read gives the values of all records from an offset to the replica's high watermark.
func (n *clusterNode) read(from partition.Offset) []string {
	n.c.t.Helper()
	g := &rig{t: n.c.t, r: n.r}
	var out []string
	for _, r := range g.read(from) {
		out = append(out, r.Value)
	}
	return out
}

// converged waits until all have the whole log of the first, committed.
func (c *cluster) converged(nodes ...*clusterNode) {
	c.t.Helper()
	if len(nodes) == 0 {
		nodes = c.nodes
	}
	c.until("convergence", func() bool {
		first := nodes[0].r.State()
		for _, n := range nodes {
			if s := n.r.State(); s.End != first.End || s.HighWatermark != first.End || s.SealedEnd != first.SealedEnd {
				return false
			}
		}
		return true
	})
}

// sealedFiles gives the digests of a node's sealed segments, from the bytes on its disk.
func (n *clusterNode) sealedFiles() map[partition.Offset][32]byte {
	n.c.t.Helper()
	out := map[partition.Offset][32]byte{}
	for _, s := range n.r.wal.Segments() {
		if s.State != wal.StateSealed {
			continue
		}
		sum, err := segment.DigestFile(n.mem, n.r.cfg.Dir+"/"+segment.Name(s.Base, segment.LogPart), s.Size)
		if err != nil {
			n.c.t.Fatal(err)
		}
		out[s.Base] = sum
	}
	return out
}

func leaderOf(n *clusterNode) topology.Leader {
	return topology.Leader{Broker: n.self.Broker, Replica: n.self.Replica, Incarnation: n.incarnation}
}
