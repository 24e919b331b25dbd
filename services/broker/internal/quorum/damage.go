package quorum

import (
	"fmt"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Skip goes over a range of the recovered log that nothing can be told of but that it was durable once; like Replay, before the first Step.
// chain is the chain word of the batch at to; unchained: that is not known either, and then nothing follows. base is the segment that the range is in. What the
// control batches in it say is not known, so the replica does not lead.
func (s *State) Skip(to, base partition.Offset, chain uint64, unchained bool) {
	t := &s.log
	t.items = append(t.items, item{base: t.end, next: to, epoch: t.lastEpoch(), chain: t.chain, time: t.time, before: t.segment})
	if t.segment.base != base {
		t.segment = segment{base: base}
	}
	t.segment.data = true // as far as anybody knows
	t.end, t.chain, t.unchained = to, chain, unchained
	s.unknown = true
	t.written, t.durable = to, to
}

// onDamaged takes in what of the log cannot be read now. A replica that may lead again does, if it is asked to.
func (s *State) onDamaged(ev Damaged) {
	s.faults = slices.Clone(ev.Ranges)
	if f, ok := s.role.(*follower); ok {
		f.mending = Range{}
	}
	s.progress()
	if len(s.faults) == 0 && s.assigned.Epoch > 0 {
		s.onAssigned(Assigned{Assignment: s.assigned, Revision: s.revision, Time: s.now})
	}
}

// unfit tells why this replica does not stand for election; empty if it may. With others there is a better one, or nobody may know what is missing
// here. A log that nobody else has can only go on as it is, as long as all that it says but some records is known: what is damaged stays told as damaged, and
// its offsets stay taken.
func (s *State) unfit(a topology.Assignment) string {
	switch {
	case len(s.faults) == 0 && s.unknown:
		return "it was opened while a part of its log could not be read, and knows nothing of that part until it is opened again"
	case len(s.faults) == 0:
		return ""
	case s.unknown || s.log.unchained:
		return fmt.Sprintf("what follows %d in its log is not known: [%d, %d) cannot be read", s.faults[0].From, s.faults[0].From, s.faults[0].To)
	case !s.alone(a.Members) || !s.alone(a.Base.Members):
		return fmt.Sprintf("[%d, %d) of its log cannot be read", s.faults[0].From, s.faults[0].To)
	default:
		return ""
	}
}

// Unknown tells whether the log says something that could not be read when it was opened: it has to be opened again when it can.
func (s *State) Unknown() bool { return s.unknown }

// askMend asks the leader for the first damage, if that is committed: the leader has what was there.
func (s *State) askMend(f *follower) {
	if len(s.faults) == 0 || !f.appending || s.faults[0].To > s.hw || f.mending.To != 0 && s.elapsed-f.asked < mendWait {
		return
	}
	f.mending, f.asked = s.faults[0], s.elapsed
	s.send(f.leader, Fetch{Epoch: f.epoch, From: f.mending.From, Until: f.mending.To})
}

// mend takes a piece of what was asked for, and asks for the next.
func (s *State) mend(f *follower, from partition.Member, entries []Entry) {
	if from != f.leader || f.mending.To == 0 {
		return
	}
	at, n := f.mending.From, 0
	for n < len(entries) && partition.Offset(entries[n].BaseOffset) == at && partition.Offset(entries[n].NextOffset()) <= f.mending.To {
		at = partition.Offset(entries[n].NextOffset())
		n++
	}
	if n == 0 {
		return
	}
	first := len(s.faults) > 0 && f.mending.From == s.faults[0].From
	f.mending.From, f.asked = at, s.elapsed
	s.emit(Mend{Entries: entries[:n], First: first, Last: at == f.mending.To})
	if at < f.mending.To {
		s.send(f.leader, Fetch{Epoch: f.epoch, From: at, Until: f.mending.To})
	}
}

// alone tells whether there is no other member.
func (s *State) alone(members []partition.Member) bool {
	return !slices.ContainsFunc(members, func(m partition.Member) bool { return m != s.cfg.Self })
}

// sound gives the replies that say all of a log. Only a majority of these proves that nothing committed is missing.
func (s *State) sound(c *candidate) []reply {
	if s.alone(c.base.Members) {
		return c.replies
	}
	return slices.DeleteFunc(slices.Clone(c.replies), func(r reply) bool { return len(r.Faults) > 0 })
}

// readable is where the first damage begins; the end without any.
func (s *State) readable() partition.Offset {
	if len(s.faults) > 0 {
		return s.faults[0].From
	}
	return s.log.end
}

// damagedAt tells whether the batch at an offset cannot be read.
func (s *State) damagedAt(o partition.Offset) bool {
	return slices.ContainsFunc(s.faults, func(f Range) bool { return f.From <= o && o < f.To })
}

// within finds the damage that an offset lies in, or behind with nothing known there.
func (s *State) within(o partition.Offset) (Range, bool) {
	for _, f := range s.faults {
		if f.From < o && (o < f.To || o == f.To && s.log.unchained && o == s.log.end) {
			return f, true
		}
	}
	return Range{}, false
}

// catchUp ends a suspicion when a leader's EpochStart is durable behind the end that recovery found: the log is that leader's up to there.
func (s *State) catchUp() {
	if !s.suspect {
		return
	}
	switch r := s.role.(type) {
	case *leader:
	case *follower:
		n := len(s.log.epochs)
		if !r.appending || n == 0 || s.log.epochs[n-1].Epoch != r.epoch || min(r.verified, s.readable(), s.log.durable) <= s.log.epochs[n-1].Start {
			return
		}
	default:
		return
	}
	s.suspect = false
	s.emit(CaughtUp{})
}
