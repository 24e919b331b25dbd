package sim

import (
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// scenario is a schedule that shows what a rule is for: with it all is well, without it something breaks.
type scenario struct {
	rule mutant.Rule
	name string
	play func(s *scene)
}

func scenarios() []scenario {
	return []scenario{
		{mutant.AckBeforeFsync, "FollowerAcksBeforeFsync", followerAcksBeforeFsync},
		{mutant.TruncateToHW, "TruncateToHW", truncateToHW},
		{mutant.LeaderCountsUnsynced, "LeaderCountsUnsynced", leaderCountsUnsynced},
		{mutant.NoFenceQuorum, "NoFenceQuorum", noFenceQuorum},
		{mutant.FenceNewMembers, "FenceNewMembers", fenceNewMembers},
		{mutant.BaseFromElecting, "BaseFromElecting", baseFromElecting},
		{mutant.AckBeforeActivation, "AckBeforeActivation", ackBeforeActivation},
		{mutant.AcceptStaleAppend, "AcceptStaleAppend", acceptStaleAppend},
		{mutant.NoEpochStart, "NoEpochStart", noEpochStart},
		{mutant.UnguardedActivation, "UnguardedActivation", unguardedActivation},
		{mutant.ChooseByLength, "ChooseByLength", chooseByLength},
		{mutant.WipedDiskKeepsName, "WipedDiskKeepsName", wipedDiskKeepsName},
		{mutant.DurableMarkKept, "DurableMarkKept", durableMarkKept},
		{mutant.MatchWholeLog, "MatchWholeLog", emptyAppendOverSuffix},
		{mutant.CountOtherEpochs, "CountOtherEpochs", countOtherEpochs},
		{mutant.UncappedHW, "UncappedHW", emptyAppendOverSuffix},
		{mutant.VolatilePromise, "VolatilePromise", volatilePromise},
		{mutant.ResumeOwnEpoch, "ResumeOwnEpoch", resumeOwnEpoch},
		{mutant.RetryFsync, "RetryFsync", retryFsync},
		{mutant.TrustPageCache, "TrustPageCache", trustPageCache},
		{mutant.CutBeforeRewrite, "CutBeforeRewrite", cutBeforeRewrite},
		{mutant.CutAtCorruption, "CutAtCorruption", cutAtCorruption},
	}
}

// TestScenarios plays every schedule on the code as it is.
func TestScenarios(t *testing.T) {
	for _, c := range scenarios() {
		t.Run(c.name, func(t *testing.T) {
			if violated := play(t, c); violated != "" {
				t.Error(violated)
			}
		})
	}
}

func play(t *testing.T, c scenario) string {
	s := newScene(t)
	defer func() {
		for _, n := range s.nodes {
			n.end(false)
		}
	}()
	return s.protect(func() { c.play(s) })
}

// 1 leads, and what 2 acknowledges it has written and not synced. 2 loses power, 1 is gone: 3 leads, with 2.
func followerAcksBeforeFsync(s *scene) {
	s.elect(1, 1, 2, 3)
	s.cutOff(3)
	s.slow[2] = "commit"
	s.publish(1, 2)
	s.run(50 * time.Millisecond)
	s.kill(1)
	s.power(2)
	clear(s.slow)
	s.join(3)
	s.start(2)
	s.elect(3, 1, 2, 3)
	s.finish()
}

// What 1 committed with 2, 2 has above its high watermark. 1 is gone, 3 asks 2.
func truncateToHW(s *scene) {
	s.elect(1, 1, 2, 3)
	s.run(100 * time.Millisecond)
	s.cutOff(3)
	s.takes = func(m peer.Message) bool { // 2 does not hear of the commit
		a, ok := m.Quorum.(quorum.Append)
		return ok && m.To.Broker == 2 && a.Prev == a.Until
	}
	s.acked(1, 1)
	s.kill(1)
	s.stash, s.takes = nil, nil
	s.join(3)
	s.elect(3, 1, 2, 3)
	s.finish()
}

// 1 acknowledges by the word of 2 and by its own page cache, and loses power. 2 is gone.
func leaderCountsUnsynced(s *scene) {
	s.elect(1, 1, 2, 3)
	s.cutOff(3)
	s.slow[1] = "commit"
	s.publish(1, 2)
	s.run(50 * time.Millisecond)
	s.power(1)
	s.kill(2)
	clear(s.slow)
	s.join(3)
	s.start(1)
	s.elect(3, 1, 2, 3)
	s.finish()
}

// 2 was away when 1 and 3 committed, and is nominated.
func noFenceQuorum(s *scene) {
	s.elect(1, 1, 2, 3)
	s.cutOff(2)
	s.acked(1, 3)
	s.join(2)
	s.kill(1)
	s.elect(2, 1, 2, 3)
	s.finish()
}

// 1 and 2 committed; the next members are 3, 4 and 5, who know nothing.
func fenceNewMembers(s *scene) {
	s.elect(1, 1, 2, 3)
	s.cutOff(3)
	s.acked(1, 3)
	s.join(3)
	s.kill(1)
	s.elect(3, 3, 4, 5)
	s.finish()
}

// An epoch of 3, 4 and 5 is nominated and never active, and then another one of them.
func baseFromElecting(s *scene) {
	s.elect(1, 1, 2, 3)
	s.cutOff(3)
	s.acked(1, 3)
	s.join(3)
	s.kill(1)
	s.cutOff(4)
	s.nominate(4, 3, 4, 5)
	s.run(100 * time.Millisecond)
	s.join(4)
	s.elect(5, 3, 4, 5)
	s.finish()
}

// 2 is nominated with other members and does not reach etcd: who was nominated after it does not ask them.
func ackBeforeActivation(s *scene) {
	s.elect(1, 1, 2, 3)
	s.nominate(2, 2, 4, 5)
	s.run(time.Millisecond)
	s.nodes[1].etcdCut = true
	s.run(20 * time.Millisecond)
	s.publish(2, 3)
	s.run(50 * time.Millisecond)
	s.cutOff(2)
	s.elect(1, 1, 2, 3)
	s.finish()
}

// 3 has fenced 2 and not yet reached it with its epoch; 1, who does not know, goes on.
func acceptStaleAppend(s *scene) {
	s.elect(1, 1, 2, 3)
	s.run(50 * time.Millisecond)
	s.nodes[0].etcdCut = true
	s.cutOff(1, 3)
	s.keep(3, 2, quorum.Append{})
	s.nominate(3, 1, 2, 3)
	s.run(20 * time.Millisecond)
	s.publish(1, 1)
	s.run(50 * time.Millisecond)
	s.release()
	s.until(3*time.Second, func() bool { return s.leads(3) })
	s.finish()
}

// Raft's figure 8: a batch of an old epoch reaches a majority in a later one, and who leads next has one that is newer in its place.
func noEpochStart(s *scene) {
	s.elect(1, 1, 2, 3, 4, 5)
	s.run(50 * time.Millisecond)
	s.cutOff(1, 3, 4, 5)
	s.publish(1, 1) // on 1 and 2
	s.run(20 * time.Millisecond)
	s.cutOff(2, 1, 3, 4, 5)
	s.nodes[0].etcdCut = true
	s.nominate(5, 1, 2, 3, 4, 5)
	s.until(time.Second, func() bool { return s.leads(5) })
	s.cutOff(5)
	s.publish(5, 1) // on 5 alone
	s.run(20 * time.Millisecond)
	s.nodes[0].etcdCut = false
	s.join(1, 2, 3, 4)
	s.join(2, 1, 3, 4)
	s.elect(1, 1, 2, 3, 4, 5)
	s.run(time.Second) // and reaches 3
	s.kill(1)
	s.join(5, 2, 3, 4)
	s.elect(5, 1, 2, 3, 4, 5)
	s.publish(5, 1)
	s.run(time.Second)
	s.finish()
}

// 2's compare-and-swap is on its way while 3 is elected.
func unguardedActivation(s *scene) {
	s.elect(1, 1, 2, 3)
	s.slow[2] = "errand"
	s.nominate(2, 1, 2, 3)
	s.run(20 * time.Millisecond)
	s.nodes[1].etcdCut = true
	s.elect(3, 1, 2, 3)
	s.nodes[1].etcdCut = false
	s.cutOff(2)
	clear(s.slow)
	s.run(50 * time.Millisecond)
	s.finish()
}

// 1 has a long tail that nobody else has, 3 a shorter and later one that was committed with 2.
func chooseByLength(s *scene) {
	s.elect(1, 1, 2, 3)
	s.cutOff(1)
	s.nodes[0].etcdCut = true
	s.publish(1, 8)
	s.run(20 * time.Millisecond)
	s.elect(2, 1, 2, 3)
	s.acked(2, 1)
	s.run(50 * time.Millisecond)
	s.kill(2)
	s.nodes[0].etcdCut = false
	s.join(1)
	s.elect(3, 1, 2, 3)
	s.finish()
}

// 2's disk is replaced by an empty one after what it acknowledged; 1 is gone for a while.
func wipedDiskKeepsName(s *scene) {
	s.elect(1, 1, 2, 3)
	s.cutOff(3)
	s.acked(1, 3)
	n := s.nodes[1]
	s.kill(2)
	n.mem, n.formatted = newMem(&n.clock), false
	clear(n.made)
	s.kill(1)
	s.join(3)
	s.start(2)
	s.nominate(3, 1, 2, 3)
	s.run(time.Second)
	s.start(1)
	s.elect(1, 1, 3, 4)
	s.finish()
}

// 2 has synced a tail that is cut by a later epoch; what comes in its place is not synced (R1).
func durableMarkKept(s *scene) {
	s.tailOn2()
	s.elect(3, 1, 2, 3)
	s.acked(3, 1)
	s.slow[2] = "commit"
	s.join(2)
	s.run(5 * time.Second)
	s.kill(1)
	s.publish(3, 1)
	s.run(100 * time.Millisecond)
	s.power(2)
	s.kill(3)
	clear(s.slow)
	s.start(2)
	s.start(1)
	s.elect(2, 1, 2, 3)
	s.finish()
}

// tailOn2 leaves 2, cut off, with a synced tail of a batch of eight records that nobody else has.
func (s *scene) tailOn2() {
	s.elect(1, 1, 2, 3)
	s.run(100 * time.Millisecond)
	s.cutOff(3)
	s.slow[1] = "commit"
	s.big(1)
	s.run(20 * time.Millisecond)
	s.cutOff(2)
	s.power(1)
	clear(s.slow)
	s.join(3)
	s.cutOff(2)
	s.start(1)
}

// A leader of a later epoch says something to 2, whose log has a tail of its own, without bringing batches: that vouches for nothing behind.
func emptyAppendOverSuffix(s *scene) {
	s.tailOn2()
	before := s.pt.canon.end
	s.elect(3, 1, 2, 3)
	s.acked(3, 1)
	from, to := s.members(3)[0], s.members(2)[0]
	hw := s.pt.canon.end
	s.last(2).r.Deliver(peer.Delivery{
		Message: peer.Message{Partition: s.pt.id, From: from, To: to, Quorum: quorum.Append{
			Epoch: s.pt.register.value.Epoch, Round: 1000, Prev: before, PrevEpoch: 1, Until: before, HighWatermark: hw,
		}},
		Release: func() {},
	})
	s.nodes[1].p.guard(func() {})
	s.takes = func(m peer.Message) bool { // 2's answer arrives late, and nothing that would put it right
		return m.From.Broker == 2 && m.To.Broker == 3 || m.From.Broker == 3 && m.To.Broker == 2
	}
	s.join(2)
	s.cutOff(2, 1)
	s.run(50 * time.Millisecond)
	s.kill(1)
	s.publish(3, 1)
	s.run(5 * time.Millisecond)
	for _, m := range s.stash {
		if m.m.To.Broker == 3 {
			m.deliver()
		}
	}
	s.run(50 * time.Millisecond)
	s.kill(3)
	s.stash, s.takes = nil, nil
	s.join(2)
	s.start(1)
	s.elect(1, 1, 2, 3)
	s.finish()
}

// 2's acknowledgement of eight records arrives when 1 leads again, in a later epoch and with others in their place (R4).
func countOtherEpochs(s *scene) {
	s.elect(1, 1, 2, 3)
	s.run(100 * time.Millisecond)
	s.cutOff(3)
	s.slow[1] = "commit"
	s.keep(2, 1, quorum.AppendOK{})
	s.big(1)
	s.run(20 * time.Millisecond)
	s.power(1)
	clear(s.slow)
	s.join(3)
	s.cutOff(2)
	s.start(1)
	s.elect(1, 1, 2, 3)
	s.cutOff(3)
	s.publish(1, 1)
	s.run(time.Millisecond)
	for _, m := range s.stash {
		h := s.last(1)
		h.r.Deliver(peer.Delivery{Message: m.m, Release: func() {}})
	}
	s.nodes[0].p.guard(func() {})
	s.run(20 * time.Millisecond)
	s.kill(1)
	s.takes = nil
	s.join(2)
	s.join(3)
	s.elect(3, 1, 2, 3)
	s.finish()
}

// 2 promises epoch 2 and restarts; 1, who has not heard of it, reaches it once more.
func volatilePromise(s *scene) {
	s.elect(1, 1, 2, 3)
	s.run(50 * time.Millisecond)
	s.nodes[0].etcdCut, s.nodes[1].etcdCut = true, true
	s.cutOff(1)
	s.keep(3, 2, quorum.Append{})
	s.nominate(3, 1, 2, 3)
	s.run(20 * time.Millisecond)
	s.cutOff(3)
	s.kill(2)
	s.nodes[1].etcdCut = false
	s.nodes[1].boot()
	s.run(time.Millisecond)
	s.nodes[1].etcdCut = true
	s.run(5 * time.Millisecond)
	s.join(1, 2)
	s.publish(1, 1)
	s.run(300 * time.Millisecond)
	s.cutOff(1)
	s.join(3, 2)
	s.release()
	s.until(3*time.Second, func() bool { return s.leads(3) })
	s.finish()
}

// 1 takes epoch 2 up and gives 2 its EpochStart behind a batch that only 2 had. Then it loses power with nothing synced but its promise, and
// takes the same epoch up again, with a shorter log (R2).
func resumeOwnEpoch(s *scene) {
	s.tailOn2()
	s.slow[1] = "commit"
	s.cutOff(3)
	s.join(2, 1)
	s.nominate(1, 1, 2, 3)
	s.run(20 * time.Millisecond)
	s.cutOff(2)
	s.power(1)
	clear(s.slow)
	s.join(3, 1)
	s.start(1)
	s.run(50 * time.Millisecond)
	s.publish(1, 8)
	s.run(300 * time.Millisecond)
	s.join(2)
	s.run(300 * time.Millisecond)
	s.finish()
}

// 2's sync fails; what a second one says is not true.
func retryFsync(s *scene) {
	s.elect(1, 1, 2, 3)
	s.run(100 * time.Millisecond)
	s.cutOff(3)
	s.failNextSync(2)
	s.publish(1, 1)
	s.run(50 * time.Millisecond)
	s.power(2)
	s.kill(1)
	s.join(3)
	s.start(2)
	s.elect(3, 1, 2, 3)
	s.finish()
}

// 2's sync fails and it starts again: what it finds is in the page cache, and nowhere else.
func trustPageCache(s *scene) {
	s.elect(1, 1, 2, 3)
	s.run(100 * time.Millisecond)
	s.cutOff(3)
	s.failNextSync(2)
	s.publish(1, 1)
	s.run(time.Second) // it gives up, starts again and is told again
	s.power(2)
	s.kill(1)
	s.join(3)
	s.start(2)
	s.elect(3, 1, 2, 3)
	s.finish()
}

// 2 is killed behind its acknowledgement and loses power while it starts, at every step of that and in many ways (R3).
func cutBeforeRewrite(s *scene) {
	s.knobs.marks = time.Hour
	for _, n := range s.nodes {
		s.kill(int(n.id))
		n.boot()
	}
	s.run(10 * time.Millisecond)
	s.elect(1, 1, 2, 3)
	s.cutOff(3)
	s.acked(1, 3)
	s.kill(2)
	s.kill(1)
	n := s.nodes[1]
	n.stopped = true
	for at := range 60 {
		n.stopped = false
		n.fuseAtBoot = 1 + at%20
		n.boot()
		s.run(2 * time.Millisecond)
		n.end(true)
	}
	n.stopped, n.fuseAtBoot = false, 0
	s.join(3)
	s.start(2)
	s.elect(3, 1, 2, 3)
	s.finish()
}

// A batch rots on 2 that it had acknowledged; 1 is gone for a while.
func cutAtCorruption(s *scene) {
	s.elect(1, 1, 2, 3)
	s.cutOff(3)
	s.acked(1, 5)
	s.run(300 * time.Millisecond)
	s.kill(2)
	n := s.nodes[1]
	name := install.Logs(n.mem, dirOf)(s.members(2)[0].Replica) + "/00000000000000000000.log"
	info, err := n.mem.Stat(name)
	if err != nil || !n.flip(name, info.Size/2, 4) {
		s.t.Fatal("nothing to damage")
	}
	n.rotten = true
	s.kill(1)
	s.join(3)
	s.start(2)
	s.nominate(3, 1, 2, 3)
	s.run(7 * time.Second)
	s.start(1)
	s.elect(1, 1, 2, 3)
	s.finish()
}
