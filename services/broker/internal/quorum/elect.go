package quorum

import (
	"fmt"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// phase of a candidate, in order.
type phase uint8

const (
	fencing    phase = iota // waits for promises of a majority of the base members
	adopting                // fetches what the chosen log has and its own has not
	starting                // waits for its EpochStart to be durable on a majority of the members
	activating              // waits for the CAS, or for the re-read behind one
)

// reply is a PrepareOK of a base member.
type reply struct {
	from partition.Member
	PrepareOK
}

// candidate tries to lead an epoch that the topology gave it.
type candidate struct {
	term
	phase    phase
	replies  []reply // of base members, one each
	donor    reply   // while adopting
	began    time.Duration
	sent     time.Duration // the last Prepare or Fetch
	revision int64         // of the assignment the CAS compares with
	reread   bool          // the CAS waits for a re-read
}

func (c *candidate) epochOf() partition.Epoch { return c.epoch }

// onAssigned learns what the topology says. It starts an election if it names this very process, for an epoch not promised yet.
func (s *State) onAssigned(ev Assigned) {
	a := ev.Assignment
	s.now = max(s.now, ev.Time)
	if c, ok := s.role.(*candidate); ok && c.epoch == a.Epoch && s.isMe(a.Leader) {
		s.adoptAssigned(ev)
		s.reassigned(c, ev)
		return
	}
	if l, ok := s.role.(*leader); ok && l.epoch == a.Epoch && ev.Revision >= s.revision {
		s.adoptAssigned(ev)
		s.learn(&l.term, a.Learners)
		s.push(&l.term)
		return
	}
	if ev.Revision < s.revision && !ev.Reread || a.Epoch < s.assigned.Epoch {
		return // older than what is known: views are hints
	}
	s.adoptAssigned(ev)
	if epoch := s.role.epochOf(); a.Epoch > epoch {
		s.stepDown("the topology has a later epoch")
	}
	again := a.Epoch < s.promised || a.Epoch == s.promised && !mutant.Is(mutant.ResumeOwnEpoch)
	if a.Status != topology.Electing || !s.isMe(a.Leader) || again {
		return // not for this process, or an epoch of an earlier life (R2)
	}
	if reason := s.unfit(a); reason != "" {
		s.emit(Unfit{Epoch: a.Epoch, Reason: reason})
		if s.alone(a.Members) && s.alone(a.Base.Members) {
			s.commit(s.log.durable, s.log.durable) // what the only member holds, a majority does
		}
		return
	}
	c := &candidate{term: newTerm(a, s.cfg.Self, s.elapsed), began: s.elapsed, revision: ev.Revision}
	if mutant.Is(mutant.FenceNewMembers) {
		c.base.Members = c.members
	}
	s.role = c
	s.promise(a.Epoch)
	if s.log.durable < s.log.end {
		s.syncLog()
	}
	s.prepare(c)
}

func (s *State) adoptAssigned(ev Assigned) {
	if ev.Revision >= s.revision {
		s.assigned, s.revision = ev.Assignment, ev.Revision
	}
}

func (s *State) isMe(l topology.Leader) bool {
	incarnation := l.Incarnation == s.cfg.Incarnation || mutant.Is(mutant.ResumeOwnEpoch)
	return l.Broker == s.cfg.Self.Broker && l.Replica == s.cfg.Self.Replica && incarnation
}

// reassigned handles news of the epoch the candidate is in: the value's new revision, or the fate of its CAS (R8).
func (s *State) reassigned(c *candidate, ev Assigned) {
	c.revision = max(c.revision, ev.Revision)
	s.learn(&c.term, s.assigned.Learners)
	switch {
	case ev.Assignment.Status == topology.Active && c.phase == activating:
		s.lead(c) // nobody else writes ACTIVE for this epoch: the CAS did it
	case ev.Assignment.Status == topology.Active:
		s.stepDown("the epoch is active without this process")
	case c.reread && ev.Reread:
		c.reread = false
		s.activate(c)
	}
}

// prepare asks the others, base and new members, for their promise.
func (s *State) prepare(c *candidate) {
	c.sent = s.elapsed
	asked := make([]partition.Member, 0, len(c.base.Members)+len(c.members))
	for _, m := range slices.Concat(c.base.Members, c.members) {
		if m == s.cfg.Self || slices.Contains(asked, m) || slices.ContainsFunc(c.replies, func(r reply) bool { return r.from == m }) {
			continue
		}
		asked = append(asked, m)
		s.send(m, Prepare{Epoch: c.epoch})
	}
}

func (s *State) onPrepareOK(from partition.Member, m PrepareOK) {
	c, ok := s.role.(*candidate)
	if !ok || c.epoch != m.Epoch || c.phase != fencing {
		return
	}
	s.record(c, from, m)
	s.choose(c)
}

func (s *State) record(c *candidate, from partition.Member, m PrepareOK) {
	known := slices.ContainsFunc(c.replies, func(r reply) bool { return r.from == from })
	if !known && slices.Contains(c.base.Members, from) {
		c.replies = append(c.replies, reply{from: from, PrepareOK: m})
	}
}

// advance acts on the candidate's own promise and marks.
func (s *State) advance(c *candidate) {
	switch c.phase {
	case fencing:
		if s.log.durable == s.log.end {
			s.record(c, s.cfg.Self, s.prepareOK(c.epoch))
			s.choose(c)
		}
	case starting:
		if c.held(s.log.durable, persistedAt) > c.start {
			c.phase = activating
			s.activate(c)
			if mutant.Is(mutant.AckBeforeActivation) {
				s.lead(c)
			}
		}
	case adopting, activating:
	}
}

// choose goes on once a majority of the base members is fenced: with the log that has the greatest (last epoch, end) among theirs.
func (s *State) choose(c *candidate) {
	sound := s.sound(c)
	enough := len(sound) >= majority(len(c.base.Members)) || mutant.Is(mutant.NoFenceQuorum)
	if c.phase != fencing || s.durable < c.epoch || !enough {
		return
	}
	ragged := slices.ContainsFunc(c.replies, func(r reply) bool { return r.Suspect })
	if ragged && len(c.replies) < len(c.base.Members) && s.elapsed-c.began < raggedWait {
		return // whoever is missing may hold what a suspect tail lost
	}
	best := sound[0]
	for _, r := range sound[1:] {
		if r.LastEpoch > best.LastEpoch || r.LastEpoch == best.LastEpoch && (r.End > best.End || r.End == best.End && r.from == s.cfg.Self) {
			best = r
		}
		if mutant.Is(mutant.ChooseByLength) && r.End > best.End {
			best = r
		}
	}
	if best.from != s.cfg.Self {
		to := common(s.log.epochs, s.log.end, best.Epochs, best.End)
		if to < best.Start {
			s.stepDown(fmt.Sprintf("the log to adopt begins at %d on its disk, this one agrees with it to %d", best.Start, to))
			return
		}
		if to < s.log.end {
			if to < s.hw {
				s.quarantine("epoch %d: the log to adopt, %v's, agrees only to %d, below the high watermark %d", c.epoch, best.from, to, s.hw)
				return
			}
			s.truncate(to)
		}
	}
	c.phase, c.donor = adopting, best
	s.adopt(c)
}

// adopt fetches until the own log ends where the donor's does.
func (s *State) adopt(c *candidate) {
	if s.log.end < c.donor.End {
		c.sent = s.elapsed
		s.send(c.donor.from, Fetch{Epoch: c.epoch, From: s.log.end, Until: c.donor.End})
		return
	}
	if s.log.chain != c.donor.Chain {
		s.quarantine("epoch %d: the adopted log ends at %d with chain %x, %v's has %x", c.epoch, s.log.end, s.log.chain, c.donor.from, c.donor.Chain)
		return
	}
	s.startEpoch(c)
}

func (s *State) onFetched(from partition.Member, m Fetched) {
	if f, ok := s.role.(*follower); ok && f.epoch == m.Epoch {
		s.mend(f, from, m.Entries)
		return
	}
	c, ok := s.role.(*candidate)
	if !ok || c.epoch != m.Epoch || c.phase != adopting || from != c.donor.from {
		return
	}
	var added []Entry
	for i := range m.Entries {
		e := &m.Entries[i]
		if partition.Offset(e.BaseOffset) != s.log.end || partition.Offset(e.NextOffset()) > c.donor.End || s.log.check(&e.Header) != nil {
			break // sent twice, or damaged on the way: asked for again
		}
		s.append(e)
		added = append(added, *e)
	}
	if len(added) > 0 {
		s.emit(AppendLog{Generation: s.log.gen, Entries: added, End: s.log.end})
		s.adopt(c)
	}
}

// startEpoch puts the first batch of the epoch at the end of the log and pushes it.
func (s *State) startEpoch(c *candidate) {
	msg, err := batch.BuildControl(nil, func(control batchcapnp.Control) error { return s.fillEpochStart(c, control) })
	if err != nil {
		s.stepDown("the epoch start cannot be built")
		return
	}
	entry, err := controlEntry(msg)
	if err != nil {
		s.stepDown("the epoch start cannot be read")
		return
	}
	c.phase, c.start = starting, s.log.end
	if mutant.Is(mutant.NoEpochStart) {
		for i := range c.peers {
			c.peers[i].next = c.start
		}
		c.phase = activating
		s.activate(c)
		return
	}
	s.stamp(&entry, c.epoch, s.now, false)
	for i := range c.peers {
		c.peers[i].next = c.start
	}
	s.emit(AppendLog{Generation: s.log.gen, Entries: []Entry{entry}, End: s.log.end})
	s.syncLog()
	s.push(&c.term)
}

func (s *State) activate(c *candidate) {
	s.emit(Activate{Epoch: c.epoch, Revision: c.revision, Start: c.start})
}

// onActivation: a CAS that did not certainly succeed is looked up (R8).
func (s *State) onActivation(ev Activation) {
	c, ok := s.role.(*candidate)
	if !ok || c.epoch != ev.Epoch || c.phase != activating {
		return
	}
	if ev.Won {
		s.lead(c)
		return
	}
	c.reread = true
	s.emit(Reread{Epoch: c.epoch})
}

// lead begins the service of an active epoch.
func (s *State) lead(c *candidate) {
	l := &leader{term: c.term}
	for i := range l.peers {
		l.peers[i].asking = false
	}
	s.role = l
	s.catchUp()
	s.emit(Lead{Epoch: l.epoch, Start: l.start, Lossy: s.lossy})
	s.lossy = false
	s.count(l)
}

// retry sends again what was not answered.
func (s *State) retry(c *candidate) {
	switch c.phase {
	case fencing:
		if s.elapsed-c.sent >= resendAfter {
			s.prepare(c)
		}
		s.choose(c)
	case adopting:
		if s.elapsed-c.sent >= resendAfter {
			s.adopt(c)
		}
	case starting:
		s.resend(&c.term)
	case activating:
	}
}
