package sim

import (
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// scene is a world of five machines and one partition in which nothing happens that is not asked for.
type scene struct {
	*World
	t     *testing.T
	pt    *part
	stash []stashed
	takes func(m peer.Message) bool // messages that are put in the stash
	slow  map[int]string            // kind of event that waits, by machine
}

type stashed struct {
	m       peer.Message
	deliver func()
}

func newScene(t *testing.T) *scene {
	k := knobs{
		nodes: 5, partitions: 1, redo: commit.Never, segmentBytes: 1 << 20, window: 1, think: time.Millisecond, timeout: time.Second,
		retry: 20 * time.Millisecond, valueBytes: 8, latency: 200 * time.Microsecond, step: 10 * time.Microsecond, disk: 50 * time.Microsecond,
		etcd: 200 * time.Microsecond, marks: 100 * time.Millisecond, restart: 10 * time.Millisecond, nominate: 50 * time.Millisecond,
		offsets: make([]time.Duration, 5), drifts: make([]int64, 5),
	}
	var out io.Writer
	if os.Getenv("SQ_SIM_TRACE") != "" {
		out = os.Stdout
	}
	w := newWorld(1, k, out)
	s := &scene{World: w, t: t, pt: w.parts[0], slow: map[int]string{}}
	w.wire.hold = func(m peer.Message, deliver func()) bool {
		if s.takes == nil || !s.takes(m) {
			return false
		}
		s.stash = append(s.stash, stashed{m, deliver})
		return true
	}
	w.hold = func(kind string, n *node) bool { return s.slow[int(n.id)] == kind }
	for _, n := range w.nodes {
		n.boot()
	}
	s.run(10 * time.Millisecond)
	return s
}

// run lets a time pass.
func (s *scene) run(d time.Duration) { s.until(d, func() bool { return false }) }

func (s *scene) members(ids ...int) []partition.Member {
	var members []partition.Member
	for _, id := range ids {
		members = append(members, s.memberOn(s.pt, s.nodes[id-1]))
	}
	return members
}

// nominate writes the next epoch.
func (s *scene) nominate(leader int, members ...int) {
	m := s.members(members...)
	l := s.leaderOf(s.members(leader)[0])
	next := topology.First(l, m)
	if s.pt.register.value.Epoch > 0 {
		next = s.pt.register.value.Nominate(l, m)
	}
	if !s.etcd.put(s.pt, next, s.pt.register.revision) {
		s.t.Fatal("a nomination is refused")
	}
}

// elect nominates and waits for the leader.
func (s *scene) elect(leader int, members ...int) {
	s.nominate(leader, members...)
	if !s.until(3*time.Second, func() bool { return s.leads(leader) }) {
		s.fail("machine %d does not lead: %+v", leader, s.pt.register.value)
	}
}

func (s *scene) leads(n int) bool {
	p := s.nodes[n-1].p
	return p != nil && p.leads(s.pt)
}

// publish tries once to have n batches of a record appended at a machine.
func (s *scene) publish(at, n int) []*publish {
	var all []*publish
	for range n {
		c := &producer{w: s.World, part: s.pt, rng: rand.New(rand.NewPCG(1, s.value)), window: 1, target: partition.NodeID(at)}
		all = append(all, c.begin())
	}
	return all
}

// big publishes one batch of eight records.
func (s *scene) big(at int) {
	c := &producer{w: s.World, part: s.pt, rng: s.rng, window: 1, records: 8, target: partition.NodeID(at)}
	c.begin()
}

// acked publishes and wants it acknowledged.
func (s *scene) acked(at, n int) {
	all := s.publish(at, n)
	if !s.until(time.Second, func() bool { return !slices.ContainsFunc(all, func(o *publish) bool { return !o.acked }) }) {
		s.fail("a publish at machine %d is not acknowledged", at)
	}
}

// cutOff cuts a machine from others, both ways; none = from all.
func (s *scene) cutOff(a int, others ...int) { s.setCut(true, a, others...) }

func (s *scene) join(a int, others ...int) { s.setCut(false, a, others...) }

func (s *scene) setCut(to bool, a int, others ...int) {
	for b := range s.nodes {
		if len(others) == 0 || slices.Contains(others, b+1) {
			s.wire.cut[a-1][b], s.wire.cut[b][a-1] = to, to
		}
	}
}

// kill is kill -9, power a power cut that leaves nothing that was not synced; start is a start.
func (s *scene) kill(n int) { s.nodes[n-1].end(false) }

func (s *scene) power(n int) {
	m := s.nodes[n-1]
	m.end(false)
	m.mem = m.mem.CrashNone()
}

func (s *scene) start(n int) {
	s.nodes[n-1].boot()
	s.run(5 * time.Millisecond)
}

// keep puts messages from one machine to another in the stash, of one kind if one is given.
func (s *scene) keep(from, to int, kinds ...quorum.Message) {
	s.takes = func(m peer.Message) bool {
		return int(m.From.Broker) == from && int(m.To.Broker) == to && (len(kinds) == 0 || sameKind(m.Quorum, kinds[0]))
	}
}

func sameKind(a, b quorum.Message) bool {
	switch a.(type) {
	case quorum.Append:
		_, ok := b.(quorum.Append)
		return ok
	case quorum.AppendOK:
		_, ok := b.(quorum.AppendOK)
		return ok
	}
	return false
}

// release lets the stashed messages arrive.
func (s *scene) release() {
	s.takes = nil
	for _, m := range s.stash {
		m.deliver()
	}
	s.stash = nil
}

// finish ends all trouble and wants everything to be well.
func (s *scene) finish() {
	s.calm, s.takes = true, nil
	clear(s.slow)
	for i := range s.wire.cut {
		clear(s.wire.cut[i])
	}
	for _, n := range s.nodes {
		n.etcdCut = false
		n.boot()
	}
	s.nominator()
	s.agenda.push(s.now, s.relist)
	if !s.until(time.Minute, func() bool { return s.unsettled() == "" }) {
		s.fail("I14: after a minute without faults: %s", s.unsettled())
	}
	s.converged()
	s.checkHistory()
}

// last is the replica of a machine.
func (s *scene) last(n int) *held {
	h := s.nodes[n-1].p.serving(s.pt)
	if h == nil {
		s.fail("machine %d has no replica", n)
	}
	return h
}

func (s *scene) failNextSync(n int) { s.nodes[n-1].p.failNextSync() }
