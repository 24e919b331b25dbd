package quorum

import (
	"cmp"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// peer is what a term knows of another member or learner.
type peer struct {
	member  partition.Member
	voter   bool
	match   partition.Offset // persisted there, verified in this epoch, without a hole (R11)
	written partition.Offset
	next    partition.Offset // to be sent next
	probe   bool             // it is asked what it holds at next, which may be no place where a batch begins
	told    partition.Offset // the high watermark that was sent
	knows   partition.Offset // the one that it says it has
	round   uint64           // the highest that it answered
	since   uint64           // of the first message behind the last step back: Nacks of earlier ones are stale
	sent    time.Duration    // the last message, or answer, for sending again
	wait    time.Duration    // before that
	lost    bool             // it ends below the local start: it gets an Install, and until that shows no batches
	asking  bool             // something was sent since it last spoke
	asked   time.Duration    // when that was first
	heard   time.Duration    // when it last spoke in this epoch
}

// term is one epoch of one process, from nomination on.
type term struct {
	epoch   partition.Epoch
	members []partition.Member
	base    topology.Base
	start   partition.Offset // of the EpochStart batch, once appended
	peers   []peer           // the other members, then the learners, in the assignment's order
	round   uint64           // of the last Append or Install that was sent
	read    uint64           // the round that a majority has to answer for the ReadIndex under way; 0 = none
}

func newTerm(a topology.Assignment, self partition.Member, now time.Duration) term {
	t := term{epoch: a.Epoch, members: slices.Clone(a.Members), base: a.Base}
	t.add(a.Members, true, self, 0, now)
	t.add(a.Learners, false, self, 0, now)
	return t
}

// add makes peers of those that are none, to be sent what comes at next.
func (t *term) add(members []partition.Member, voter bool, self partition.Member, next partition.Offset, now time.Duration) {
	for _, m := range members {
		if m != self && t.peer(m) == nil {
			t.peers = append(t.peers, peer{member: m, voter: voter, next: next, wait: resendAfter, heard: now})
		}
	}
}

// learn takes in who else learns now. Members stay for the whole epoch.
func (s *State) learn(t *term, learners []partition.Member) {
	t.peers = slices.DeleteFunc(t.peers, func(p peer) bool { return !p.voter && !slices.Contains(learners, p.member) })
	t.add(learners, false, s.cfg.Self, s.log.end, s.elapsed)
}

func (t *term) peer(m partition.Member) *peer {
	for i := range t.peers {
		if t.peers[i].member == m {
			return &t.peers[i]
		}
	}
	return nil
}

// majority is how many of n are more than half.
func majority(n int) int { return n/2 + 1 }

// held gives the greatest offset that a majority of the members hold, the process itself holding self.
func (t *term) held(self partition.Offset, of func(*peer) partition.Offset) partition.Offset {
	var buf [8]partition.Offset
	marks := append(buf[:0], self)
	for i := range t.peers {
		if t.peers[i].voter {
			marks = append(marks, of(&t.peers[i]))
		}
	}
	slices.SortFunc(marks, func(a, b partition.Offset) int { return cmp.Compare(b, a) })
	return marks[majority(len(marks))-1]
}

func persistedAt(p *peer) partition.Offset { return p.match }
func writtenAt(p *peer) partition.Offset   { return p.written }

// heard tells whether a majority, the process itself included, has nothing to answer or has answered of late.
func (s *State) heard(t *term) bool {
	n, voters := 1, 1
	for i := range t.peers {
		if !t.peers[i].voter {
			continue
		}
		voters++
		if p := &t.peers[i]; !p.asking || s.elapsed-p.asked < silenceMax {
			n++
		}
	}
	return n >= majority(voters)
}

// push sends every peer what it has not been sent, and a high watermark that moved where nothing else carries it.
func (s *State) push(t *term) {
	for i := range t.peers {
		p := &t.peers[i]
		if p.lost {
			p.next = s.log.end
			continue
		}
		if !p.probe && (p.next < s.log.end || p.told < s.hw) {
			s.pushTo(t, p, p.next == s.log.end)
		}
	}
}

func (s *State) pushTo(t *term, p *peer, lazy bool) {
	t.round++
	until := s.log.end
	if p.probe {
		until = p.next
	}
	m := Append{
		Epoch: t.epoch, Round: t.round, Prev: p.next, PrevEpoch: s.log.epochBefore(p.next), Until: until, HighWatermark: s.hw,
	}
	m.PrevChain, _ = s.log.chainAt(p.next) // below floor the first entry's own word says it
	s.emit(Send{To: p.member, Message: m, Lazy: lazy})
	p.next, p.told, p.sent = until, s.hw, s.elapsed
	if !p.asking {
		p.asking, p.asked = true, s.elapsed
	}
}

// resend asks those who owe an answer where they stand, ever more seldom. What was lost on the way they say in a Nack.
func (s *State) resend(t *term) {
	for i := range t.peers {
		p := &t.peers[i]
		if s.owes(t, p) && s.elapsed-p.sent >= p.wait {
			p.wait = min(2*p.wait, resendMax)
			if p.lost {
				p.next = s.log.end
			}
			s.pushTo(t, p, false)
		}
	}
	s.push(t)
}

// owes tells whether a peer has something to answer.
func (s *State) owes(t *term, p *peer) bool {
	return p.match < s.log.end || p.knows < s.hw || p.round < t.read
}

// hear takes in that a peer has spoken.
func (s *State) hear(p *peer, round uint64) {
	p.asking, p.heard, p.sent, p.wait = false, s.elapsed, s.elapsed, resendAfter
	p.round = max(p.round, round)
}

func (s *State) onAppendOK(from partition.Member, m AppendOK) {
	if mutant.Is(mutant.CountOtherEpochs) {
		m.Epoch = s.role.epochOf()
	}
	t := s.termOf(m.Epoch)
	if t == nil {
		return // of another epoch, even if this process leads again (R4)
	}
	p := t.peer(from)
	if p == nil {
		return
	}
	s.hear(p, m.Round)
	p.lost = false
	p.match = max(p.match, min(m.Match, s.log.end))
	p.written = max(p.written, p.match, min(m.Written, s.log.end))
	p.knows = max(p.knows, m.HighWatermark)
	p.next, p.probe = max(p.next, p.match), false
	s.progress()
	s.confirm(t)
}

func (s *State) onNack(from partition.Member, m Nack) {
	if m.Promised > s.role.epochOf() && m.Epoch == s.role.epochOf() {
		s.stepDown("a member promised a later epoch")
		return
	}
	t := s.termOf(m.Epoch)
	if t == nil || m.Promised > m.Epoch {
		return
	}
	p := t.peer(from)
	if p == nil {
		return
	}
	s.hear(p, m.Round)
	s.confirm(t)
	if m.Round < p.since {
		return // of what was sent before the last step back
	}
	at, probe := m.Hint.End, false
	if own := s.log.epochBefore(at); own != m.Hint.Epoch {
		// Of a later epoch there, which is not in this log, only the peer knows where it begins; here at may lie within a batch.
		probe = own < m.Hint.Epoch
		// This log has no batch of that epoch there: go to where the last epoch that is not later ends.
		at = min(at, endOf(s.log.epochs, s.log.end, min(own, m.Hint.Epoch)))
	}
	if p.lost = max(at, p.match) < s.log.start; p.lost {
		t.round++
		p.next, p.since, p.probe = s.log.end, t.round, false
		s.emit(Reinstall{To: p.member, Epoch: t.epoch, Round: t.round})
		return
	}
	if next := max(min(at, p.next), p.match); next < p.next {
		p.next, p.since, p.probe = next, t.round+1, probe && next == at
		s.pushTo(t, p, false)
	}
}

// onReadIndex begins a round: when a majority has answered it, this process was the leader when it was asked, and the high watermark covers
// everything that was acknowledged by then.
func (s *State) onReadIndex() {
	l, ok := s.role.(*leader)
	if !ok {
		return
	}
	l.read = l.round + 1
	for i := range l.peers {
		if p := &l.peers[i]; p.voter {
			s.pushTo(&l.term, p, false)
		}
	}
	s.confirm(&l.term)
}

// confirm ends the ReadIndex under way if a majority has answered its round.
func (s *State) confirm(t *term) {
	if t.read == 0 || !s.Leads() {
		return
	}
	n, voters := 1, 1
	for i := range t.peers {
		if p := &t.peers[i]; p.voter {
			voters++
			if p.round >= t.read {
				n++
			}
		}
	}
	if n >= majority(voters) {
		t.read = 0
		s.emit(ReadIndexed{HighWatermark: s.hw})
	}
}

// termOf gives the term of an epoch in which this process pushes: as leader, or as candidate once its EpochStart is in the log.
func (s *State) termOf(epoch partition.Epoch) *term {
	switch r := s.role.(type) {
	case *candidate:
		if r.epoch == epoch && r.phase >= starting {
			return &r.term
		}
	case *leader:
		if r.epoch == epoch {
			return &r.term
		}
	}
	return nil
}
