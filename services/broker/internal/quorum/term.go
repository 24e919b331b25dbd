package quorum

import (
	"cmp"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// peer is what a term knows of another member or learner.
type peer struct {
	member  partition.Member
	voter   bool
	match   partition.Offset // persisted there, verified in this epoch
	written partition.Offset
	next    partition.Offset // to be sent next
	hw      partition.Offset // last told
	sent    time.Duration    // when, for resending
	asking  bool             // something was sent since it last spoke
	asked   time.Duration    // when that was first
}

// term is one epoch of one process, from nomination on.
type term struct {
	epoch   partition.Epoch
	members []partition.Member
	base    topology.Base
	start   partition.Offset // of the EpochStart batch, once appended
	peers   []peer           // the other members, then the learners, in the assignment's order
}

func newTerm(a topology.Assignment, self partition.Member) term {
	t := term{epoch: a.Epoch, members: slices.Clone(a.Members), base: a.Base}
	add := func(members []partition.Member, voter bool) {
		for _, m := range members {
			if m != self && !slices.ContainsFunc(t.peers, func(p peer) bool { return p.member == m }) {
				t.peers = append(t.peers, peer{member: m, voter: voter})
			}
		}
	}
	add(a.Members, true)
	add(a.Learners, false)
	return t
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
		if p.next < s.log.end || p.hw < s.hw {
			s.pushTo(t, p)
		}
	}
}

func (s *State) pushTo(t *term, p *peer) {
	m := Append{Epoch: t.epoch, Prev: p.next, PrevEpoch: s.log.epochBefore(p.next), Until: s.log.end, HighWatermark: s.hw}
	m.PrevChain, _ = s.log.chainAt(p.next) // below floor the first entry's own word says it
	s.send(p.member, m)
	p.next, p.hw, p.sent = s.log.end, s.hw, s.elapsed
	if !p.asking {
		p.asking, p.asked = true, s.elapsed
	}
}

// resend starts over from the last answer where one is overdue.
func (s *State) resend(t *term) {
	for i := range t.peers {
		p := &t.peers[i]
		if p.match < s.log.end && s.elapsed-p.sent >= resendAfter {
			p.next = max(p.match, s.log.start)
			s.pushTo(t, p)
		}
	}
	s.push(t)
}

func (s *State) onAppendOK(from partition.Member, m AppendOK) {
	t := s.termOf(m.Epoch)
	if t == nil {
		return // of another epoch, even if this process leads again (R4)
	}
	p := t.peer(from)
	if p == nil {
		return
	}
	p.asking = false
	p.match = max(p.match, min(m.Match, s.log.end))
	p.written = max(p.written, p.match, min(m.Written, s.log.end))
	p.next = max(p.next, p.match)
	s.progress()
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
	p.asking = false
	at := m.Hint.End
	if own := s.log.epochBefore(at); own != m.Hint.Epoch {
		// This log has no batch of that epoch there: go to where the last epoch that is not later ends.
		at = min(at, endOf(s.log.epochs, s.log.end, min(own, m.Hint.Epoch)))
	}
	if next := max(min(at, p.next), p.match, s.log.start); next < p.next {
		p.next = next
		s.pushTo(t, p)
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
