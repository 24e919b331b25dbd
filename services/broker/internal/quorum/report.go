package quorum

import (
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Report is what a State says about itself.
type Report struct {
	Role          string          // follower, candidate or leader
	Epoch         partition.Epoch // the role's; for a follower the one it last promised
	Promised      partition.Epoch
	Start, End    partition.Offset
	HighWatermark partition.Offset
	Persisted     partition.Offset // a majority has everything below on disk
	Generation    uint64
	Written       partition.Offset
	Durable       partition.Offset // the own persisted mark
	LastEpoch     partition.Epoch
	LastTime      int64
	SegmentBase   partition.Offset
	SegmentData   bool // the open segment holds records
	Quarantined   bool
	Suspect       bool    // the end may have lost what was acknowledged
	Faults        []Range // what of the log cannot be read
}

// Peer is what a leader knows of another replica.
type Peer struct {
	Member        partition.Member
	Learner       bool
	Match         partition.Offset // it has the leader's log up to here on disk, without a hole
	HighWatermark partition.Offset // that it says it knows
	Silent        time.Duration    // since it was last heard, or since the epoch began
}

// Peers describes the other members and the learners. nil where this replica does not lead.
func (s *State) Peers() []Peer {
	l, ok := s.role.(*leader)
	if !ok {
		return nil
	}
	out := make([]Peer, len(l.peers))
	for i, p := range l.peers {
		out[i] = Peer{Member: p.member, Learner: !p.voter, Match: p.match, HighWatermark: p.knows, Silent: s.elapsed - p.heard}
	}
	return out
}

// Replicated tells whether other replicas get the log.
func (s *State) Replicated() bool { return len(s.assigned.Members)+len(s.assigned.Learners) > 1 }

// Overdue tells in what time, if nobody answers, something is to be sent again; ok is false where nobody owes an answer.
func (s *State) Overdue() (wait time.Duration, ok bool) {
	t := s.termOf(s.role.epochOf())
	if t == nil {
		return 0, false
	}
	for i := range t.peers {
		p := &t.peers[i]
		if due := p.sent + p.wait - s.elapsed; s.owes(t, p) && (!ok || due < wait) {
			wait, ok = due, true
		}
	}
	return max(wait, 0), ok
}

// EpochBefore is the epoch of the batch that ends at or spans an offset, 0 = none is known.
func (s *State) EpochBefore(at partition.Offset) partition.Epoch { return s.log.epochBefore(at) }

// Report describes the state.
func (s *State) Report() Report {
	r := Report{
		Epoch: s.role.epochOf(), Promised: s.promised, Start: s.log.start, End: s.log.end, HighWatermark: s.hw, Persisted: s.persisted,
		Generation: s.log.gen, Written: s.log.written, Durable: s.log.durable, LastEpoch: s.log.lastEpoch(), LastTime: s.log.time,
		SegmentBase: s.log.segment.base, SegmentData: s.log.segment.data, Quarantined: s.quarantined,
		Suspect: s.suspect, Faults: slices.Clone(s.faults),
	}
	switch s.role.(type) {
	case *follower:
		r.Role = "follower"
	case *candidate:
		r.Role = "candidate"
	case *leader:
		r.Role = "leader"
	}
	return r
}

// CanPropose tells whether the replica leads an active epoch and has heard from a majority of late.
func (s *State) CanPropose() bool {
	l, ok := s.role.(*leader)
	return ok && !s.quarantined && s.heard(&l.term)
}

// Leads tells whether the replica leads an active epoch.
func (s *State) Leads() bool {
	_, ok := s.role.(*leader)
	return ok && !s.quarantined
}

// End is where the log ends, committed or not.
func (s *State) End() partition.Offset { return s.log.end }

// LastEpoch is the epoch of the last batch, 0 = an empty log.
func (s *State) LastEpoch() partition.Epoch { return s.log.lastEpoch() }

// HighWatermark is where the committed log ends.
func (s *State) HighWatermark() partition.Offset { return s.hw }

// Epochs are the epochs in the log, in order. The slice is a copy.
func (s *State) Epochs() []EpochStart { return slices.Clone(s.log.epochs) }

// Assigned is the newest assignment learned.
func (s *State) Assigned() topology.Assignment { return s.assigned }

// TrimStart says that the local log now starts at start.
func (s *State) TrimStart(start partition.Offset) { s.log.start = max(s.log.start, min(start, s.hw)) }
