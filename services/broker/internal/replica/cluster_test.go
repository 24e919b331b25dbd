package replica

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
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
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/wal"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// cluster is some replicas of one partition, each with its own disk in memory, a register, and a network that is moved by the test's thread
// of nobody: a message arrives when it is sent, unless its link is cut.
type cluster struct {
	t        testing.TB
	clock    *clock.Manual
	topic    topology.Topic
	register register
	nodes    []*clusterNode

	mu struct {
		sync.Mutex
		cut map[[2]partition.NodeID]bool
		// drop, if set, decides about each message.
		drop func(m peer.Message) bool
	}
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
	failed      chan error

	mu struct {
		sync.Mutex
		r *Replica // nil = down
	}
}

// newCluster makes a cluster of n, all of them running. Nobody leads.
func newCluster(t testing.TB, n int, adjust ...func(*cluster)) *cluster {
	c := &cluster{
		t: t, clock: clock.NewManual(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
		topic: topology.Topic{ID: theTopic, Partitions: 1, MapVersion: 1, SegmentBytes: 1 << 20, Durability: topology.DurabilityQuorum},
	}
	c.mu.cut = map[[2]partition.NodeID]bool{}
	for _, f := range adjust {
		f(c)
	}
	for i := range n {
		c.add(i + 1)
	}
	t.Cleanup(func() {
		for _, node := range c.nodes {
			node.stop()
		}
	})
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
	if err := commit.Replay(disk, j, func(partition.UUID) string { return logDir }, slog.New(slog.DiscardHandler)); err != nil {
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
	n.journal, n.workers, n.failed = j, workers.New(4), make(chan error, 1)
	failed := n.failed
	n.commit, err = commit.New(commit.Config{
		Journal: j, Workers: n.workers, Limits: commit.Limits{RingBytes: 64 << 10}, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		return err
	}
	r, err := Open(context.Background(), Config{
		Partition: partition.ID{Topic: theTopic}, Self: n.self, Incarnation: n.incarnation, Dir: logDir, Topic: n.c.topic,
	}, Deps{
		FS: disk, Journal: j, Workers: n.workers, Commit: n.commit, Activator: &n.c.register, Peers: n, Clock: n.c.clock,
		Metrics: NewMetrics(prometheus.NewRegistry()), Log: slog.New(slog.DiscardHandler), Refusal: func(bool) error { return nil },
		NoRoom: func() {}, Failed: func(err error) { failed <- err },
	}, kept)
	if err != nil {
		_ = n.commit.Close() // nobody has joined
		n.workers.Close()
		j.Close()
		return err
	}
	n.mu.Lock()
	n.mu.r = r
	n.mu.Unlock()
	return nil
}

// r is the running replica, nil = down.
func (n *clusterNode) r() *Replica {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.r
}

// stop ends the process.
func (n *clusterNode) stop() {
	n.mu.Lock()
	r := n.mu.r
	n.mu.r = nil
	n.mu.Unlock()
	if r == nil {
		return
	}
	r.Close()
	_ = n.commit.Close() // a disk that failed is what the test is about
	n.workers.Close()
	n.journal.Close()
}

// kill is kill -9: what was written is there, what was not told to the disk is not.
func (n *clusterNode) kill() {
	survivor := n.mem.CrashAll()
	n.stop()
	n.mem = survivor
}

// Send implements outbox.Peers.
func (n *clusterNode) Send(m peer.Message) {
	body := bodyOf(m)
	n.c.mu.Lock()
	lost := n.c.mu.cut[[2]partition.NodeID{m.From.Broker, m.To.Broker}] || n.c.mu.drop != nil && n.c.mu.drop(m)
	n.c.mu.Unlock()
	if lost {
		return
	}
	for _, to := range n.c.nodes {
		if r := to.r(); to.self == m.To && r != nil {
			r.Deliver(deliveryOf(n.c.t, m, body))
		}
	}
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
	switch q := m.Quorum.(type) {
	case quorum.Append:
		q.Entries = entries
		m.Quorum = q
	case quorum.Fetched:
		q.Entries = entries
		m.Quorum = q
	}
	m.Body = nil
	var once sync.Once
	return peer.Delivery{Message: m, Release: func() {
		released := false
		once.Do(func() { released = true })
		if !released {
			t.Error("a delivery is released twice")
		}
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
		if r := n.r(); r != nil {
			r.Assign(a, revision)
		}
	}
}

// elect nominates and waits until the node leads.
func (c *cluster) elect(leader *clusterNode, members ...*clusterNode) {
	c.t.Helper()
	c.nominate(leader, members...)
	c.until(fmt.Sprintf("leadership of %d", leader.self.Broker), func() bool { return leader.r().Active() })
}

// until lets time pass, 20 ms at a step, until a condition holds.
func (c *cluster) until(what string, holds func() bool) {
	c.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for time.Now().Before(deadline) {
		if holds() {
			return
		}
		c.clock.Advance(20 * time.Millisecond)
		for _, n := range c.nodes {
			if r := n.r(); r != nil {
				r.Tick()
				_, _ = ask(context.Background(), r, false, func(answer func(struct{}, error)) { answer(struct{}{}, nil) })
			}
		}
	}
	for _, n := range c.nodes {
		if r := n.r(); r != nil {
			c.t.Logf("%d: %+v", n.self.Broker, r.State())
		}
	}
	c.t.Fatalf("in 20 s: no %s", what)
}

// link cuts or mends the way between two nodes, both directions.
func (c *cluster) link(a, b *clusterNode, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.cut[[2]partition.NodeID{a.self.Broker, b.self.Broker}] = !up
	c.mu.cut[[2]partition.NodeID{b.self.Broker, a.self.Broker}] = !up
}

// publish sends one batch and gives where the answer will be.
func (n *clusterNode) publish(o batch.BuildOptions, values ...string) <-chan result {
	answer := make(chan result, 1)
	n.r().Publish(Publish{Msg: message(o, values...), Done: func(p Published, err error) { answer <- result{p, err} }})
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
	g := &rig{t: n.c.t, r: n.r()}
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
		first := nodes[0].r().State()
		for _, n := range nodes {
			if s := n.r().State(); s.End != first.End || s.HighWatermark != first.End || s.SealedEnd != first.SealedEnd {
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
	for _, s := range n.r().wal.Segments() {
		if s.State != wal.StateSealed {
			continue
		}
		sum, err := segment.DigestFile(n.mem, logDir+"/"+segment.Name(s.Base, segment.LogPart), s.Size)
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
