package replica

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// The whole life of a partition with three replicas: acks after a majority, a leader that is killed, another that takes over by nomination,
// nothing acknowledged lost, the dead one back and caught up, readers served by followers.
func TestThreeReplicas(t *testing.T) {
	c := newCluster(t, 3)
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.elect(one)
	one.mustPublish("a", "b", "c")
	c.converged()
	for _, n := range c.nodes {
		if diff := cmp.Diff([]string{"a", "b", "c"}, n.read(0)); diff != "" {
			t.Errorf("%d has: %s", n.self.Broker, diff)
		}
	}
	three.kill()
	one.mustPublish("d")
	one.kill()
	three.start()
	c.elect(three)
	three.mustPublish("e")
	one.start()
	c.tell()
	c.converged(three, one, two)
	for _, n := range c.nodes {
		if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, n.read(0)); diff != "" {
			t.Errorf("%d has: %s", n.self.Broker, diff)
		}
	}
}

// Without a majority nothing is acknowledged; with it, what waited is.
func TestNoAckWithoutMajority(t *testing.T) {
	c := newCluster(t, 3)
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.elect(one)
	c.converged()
	c.link(one, two, false)
	c.link(one, three, false)
	answer := one.publish(batch.BuildOptions{}, "a")
	c.until("own persistence", func() bool { return one.r.wal.Persisted() == one.r.State().End })
	if len(answer) > 0 {
		t.Fatalf("acknowledged by one of three: %+v", <-answer)
	}
	c.link(one, three, true)
	c.until("ack", func() bool { return len(answer) > 0 })
	if r := <-answer; r.err != nil {
		t.Fatal(r.err)
	}
	c.link(one, two, true)
	c.converged()
}

// An ack waits for the syncs of a majority, the leader's own among them or not.
func TestAckWaitsForSyncs(t *testing.T) {
	c := newCluster(t, 3)
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.elect(one)
	c.converged()
	for _, tc := range []struct {
		stuck []*clusterNode
		acked bool
	}{
		{[]*clusterNode{one}, true},
		{[]*clusterNode{two}, true},
		{[]*clusterNode{one, two}, false},
		{[]*clusterNode{two, three}, false},
	} {
		for _, n := range tc.stuck {
			n.stuck = true
		}
		answer := one.publish(batch.BuildOptions{}, "a")
		for range 20 {
			c.pass(20 * time.Millisecond)
		}
		if (len(answer) > 0) != tc.acked {
			t.Errorf("acknowledged: %v, with %d disks stuck, the first of %d", len(answer) > 0, len(tc.stuck), tc.stuck[0].self.Broker)
		}
		for _, n := range tc.stuck {
			n.stuck = false
		}
		c.until("ack", func() bool { return len(answer) > 0 })
		c.converged()
	}
}

// What a deposed leader appended and nobody else had is cut when it comes back, and its publisher is told that nobody knows.
func TestDeposedLeaderIsCut(t *testing.T) {
	c := newCluster(t, 3)
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.elect(one)
	one.mustPublish("a")
	c.converged()
	c.link(one, two, false)
	c.link(one, three, false)
	lost := one.publish(batch.BuildOptions{}, "lost")
	c.until("append", func() bool { return one.r.wal.End() > two.r.wal.End() })
	c.elect(two)
	two.mustPublish("b", "c", "d")
	c.link(one, two, true)
	c.link(one, three, true)
	c.converged()
	c.until("answer", func() bool { return len(lost) > 0 })
	if r := <-lost; !fault.Is(r.err, fault.OutcomeUnknown) {
		t.Errorf("the batch that was cut is answered %+v", r)
	}
	for _, n := range c.nodes {
		if diff := cmp.Diff([]string{"a", "b", "c", "d"}, n.read(0)); diff != "" {
			t.Errorf("%d has: %s", n.self.Broker, diff)
		}
	}
}

// A follower that was away gets what it missed in pieces, whatever it is; segments are sealed on all of them, with the same bytes.
func TestCatchUpAndSealedFiles(t *testing.T) {
	c := newCluster(t, 3, func(c *cluster) { c.topic.SegmentBytes = 64 << 10 })
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.elect(one)
	one.mustPublish("a")
	three.kill()
	var want []string
	for i := range 40 {
		want = append(want, fmt.Sprintf("%d %s", i, strings.Repeat("x", 100<<10)))
	}
	one.mustPublish(want...)
	three.start()
	c.tell()
	c.converged(one, two, three)
	sealed := one.sealedFiles()
	if len(sealed) < 30 {
		t.Errorf("%d segments are sealed", len(sealed))
	}
	for _, n := range c.nodes {
		if diff := cmp.Diff(append([]string{"a"}, want...), n.read(0)); diff != "" {
			t.Errorf("%d has: %s", n.self.Broker, diff)
		}
		if diff := cmp.Diff(sealed, n.sealedFiles()); diff != "" {
			t.Errorf("%d has other sealed files: %s", n.self.Broker, diff)
		}
	}
	// A new leader goes on with the seals.
	c.elect(two)
	two.mustPublish(want...)
	c.converged()
	if diff := cmp.Diff(two.sealedFiles(), three.sealedFiles()); diff != "" {
		t.Errorf("other sealed files: %s", diff)
	}
}

// A replica that is far behind gets the rest at the rate, and what is new does not wait for it.
func TestCatchUpRate(t *testing.T) {
	c := newCluster(t, 3)
	c.rate = outbox.NewRate(c.clock, 4<<20)
	for _, n := range c.nodes {
		n.kill()
		n.start()
	}
	one, three := c.nodes[0], c.nodes[2]
	c.elect(one)
	three.kill()
	var bulk []string
	for i := range 240 {
		bulk = append(bulk, fmt.Sprintf("%d %s", i, strings.Repeat("x", 100<<10)))
	}
	one.mustPublish(bulk...)
	three.start()
	c.tell()
	began := c.clock.Now()
	one.mustPublish("new")
	if took := c.clock.Now().Sub(began); took > time.Second {
		t.Errorf("what is new took %v", took)
	}
	c.converged()
	// 24 MB, of which 8 MiB are free: some 15 pieces of a MiB, 4 a second.
	if took := c.clock.Now().Sub(began); took < 3*time.Second || took > 8*time.Second {
		t.Errorf("caught up in %v", took)
	}
}

// Messages that are lost, one in three, only make it slower.
func TestLossyLinks(t *testing.T) {
	c := newCluster(t, 3)
	rng := rand.New(rand.NewPCG(1, 2))
	c.drop = func(peer.Message) bool { return rng.IntN(3) == 0 }
	c.elect(c.nodes[0])
	for i := range 30 {
		c.nodes[0].mustPublish(fmt.Sprint(i))
	}
	c.elect(c.nodes[1])
	c.nodes[1].mustPublish("end")
	c.converged()
}

// What goes between replicas while nothing is lost: every batch once to each follower, and nothing for ever after.
func TestNothingIsSentTwice(t *testing.T) {
	c := newCluster(t, 3)
	sent, other := map[partition.NodeID]int{}, 0
	c.drop = func(m peer.Message) bool {
		switch q := m.Quorum.(type) {
		case quorum.Append:
			if q.Until > q.Prev {
				sent[m.To.Broker] += int(q.Until - q.Prev)
			}
		case quorum.Nack:
			t.Errorf("nack %+v", q)
		}
		other++
		return false
	}
	c.elect(c.nodes[0])
	for i := range 20 {
		c.nodes[0].mustPublish(fmt.Sprint(i))
	}
	c.converged()
	if sent[2] != 21 || sent[3] != 21 {
		t.Errorf("sent %v batches, 21 were appended", sent)
	}
	c.until("rest", func() bool { _, owed := c.nodes[0].r.core.Overdue(); return !owed })
	before := other
	for range 100 {
		c.pass(100 * time.Millisecond)
	}
	if other != before {
		t.Errorf("%d messages in 10 s of nothing", other-before)
	}
}

// `latest` waits for a majority: a leader that was deposed without knowing gives no answer.
func TestLatestAsksAMajority(t *testing.T) {
	c := newCluster(t, 3)
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.elect(one)
	one.mustPublish("a")
	c.link(one, two, false)
	c.link(one, three, false)
	c.register.mu.Lock()
	c.register.mu.value = c.register.mu.value.Nominate(leaderOf(two), c.members(one, two, three))
	c.register.mu.revision++
	a, revision := c.register.mu.value, c.register.mu.revision
	c.register.mu.Unlock()
	two.r.Assign(a, revision) // 1 hears nothing of it
	c.until("leadership of 2", func() bool { return two.r.Active() })
	two.mustPublish("b")
	stale, fresh := latest(one), latest(two)
	c.until("an answer of the leader", func() bool { return len(fresh) > 0 })
	if got := <-fresh; got.err != nil || got.offset != two.r.State().End {
		t.Errorf("the leader says %+v", got)
	}
	if len(stale) > 0 {
		t.Errorf("the deposed leader says %+v", <-stale)
	}
	c.link(one, two, true) // it learns that it is none
	c.until("an answer of the deposed", func() bool { return len(stale) > 0 })
	if got := <-stale; !fault.Is(got.err, fault.NotLeader) {
		t.Errorf("the deposed leader says %+v", got)
	}
}

type indexed struct {
	offset partition.Offset
	err    error
}

// latest asks a replica for the end of the log.
func latest(n *clusterNode) <-chan indexed {
	answer := make(chan indexed, 1)
	n.r.mail.Post(func() { n.r.index(func(o partition.Offset, err error) { answer <- indexed{o, err} }) })
	return answer
}

// A learner joins and leaves while an epoch goes on: it gets the log, counts for nothing, and is told apart; then it becomes a member in the
// place of another, and a later leader.
func TestLearner(t *testing.T) {
	c := newCluster(t, 3)
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.elect(one)
	one.mustPublish("a", "b")
	c.converged()
	four := c.add(4)
	learns := func(nodes ...*clusterNode) {
		c.register.mu.Lock()
		c.register.mu.value.Learners = c.members(nodes...)
		c.register.mu.revision++
		c.register.mu.Unlock()
		c.tell()
	}
	learns(four)
	c.converged(one, four)
	standings := func() map[partition.NodeID]Standing {
		out := map[partition.NodeID]Standing{}
		all, err := one.r.Standings(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			out[s.Member.Broker] = s
		}
		return out
	}
	end := one.r.State().End
	c.until("its own word", func() bool { return standings()[4].HighWatermark == end })
	want := Standing{Member: four.self, Learner: true, Match: end, HighWatermark: end}
	if diff := cmp.Diff(want, standings()[4], cmpopts.IgnoreFields(Standing{}, "LastHeard")); diff != "" {
		t.Error(diff)
	}
	// With 2 and 3 away, 1 and the learner are no majority.
	c.link(one, two, false)
	c.link(one, three, false)
	answer := one.publish(batch.BuildOptions{}, "c")
	c.until("the learner has it", func() bool { return four.r.State().End == one.r.State().End })
	if len(answer) > 0 {
		t.Fatalf("a learner was counted: %+v", <-answer)
	}
	c.link(one, two, true)
	c.link(one, three, true)
	c.until("ack", func() bool { return len(answer) > 0 })
	learns()
	if _, ok := standings()[4]; ok {
		t.Error("it is still there")
	}
	one.mustPublish("d")
	if four.r.State().End == one.r.State().End {
		t.Error("it still learns")
	}
	learns(four)
	c.elect(one, one, two, four)
	if s := standings(); s[4].Learner || len(s) != 3 {
		t.Errorf("standings %+v", s)
	}
	two.kill()
	one.mustPublish("e") // with 4
	one.kill()
	two.start()
	c.elect(four, one, two, four)
	if diff := cmp.Diff([]string{"a", "b", "c", "d", "e"}, four.read(0)); diff != "" {
		t.Error(diff)
	}
}

// After a power cut of all at a random moment, what was acknowledged is there, and all have the same.
func TestPowerCutOfAll(t *testing.T) {
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newCluster(t, 3)
		leader := c.nodes[0]
		c.elect(leader)
		var want []string
		for life := range 4 {
			acked := map[string]<-chan result{}
			var sent []string
			for i := range 1 + rng.IntN(8) {
				v := fmt.Sprintf("%d.%d.%d", seed, life, i)
				sent, acked[v] = append(sent, v), leader.publish(batch.BuildOptions{}, v)
				for range rng.IntN(60) {
					c.any(rng)
				}
			}
			for _, v := range sent {
				if len(acked[v]) > 0 && (<-acked[v]).err == nil {
					want = append(want, v)
				}
			}
			c.net = nil
			for _, n := range c.nodes {
				n.power(rng)
			}
			away := rng.IntN(3) // for longer
			for i, n := range c.nodes {
				if i != away {
					n.start()
				}
			}
			leader = c.nodes[(away+1+rng.IntN(2))%3]
			c.elect(leader)
			got := leader.read(0)
			for _, v := range want {
				if !slices.Contains(got, v) {
					t.Fatalf("seed %d, after life %d: %q was acknowledged and is gone", seed, life, v)
				}
			}
			c.nodes[away].start()
			c.tell()
			c.converged()
			for _, n := range c.nodes {
				if diff := cmp.Diff(got, n.read(0)); diff != "" {
					t.Fatalf("seed %d, after life %d: %s", seed, life, diff)
				}
			}
		}
	}
}
