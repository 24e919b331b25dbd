package quorum

import (
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// follower promises, appends and answers.
type follower struct {
	epoch     partition.Epoch
	candidate partition.Member // waits for a PrepareOK
	prepared  bool
	leader    partition.Member
	appending bool             // leader is known
	verified  partition.Offset // agrees with the leader's log up to here, contiguously
	round     uint64           // the highest of an Append that was taken
	acked     AppendOK         // last sent
	owed      bool             // an Append is to be answered although it brought nothing
	mending   Range            // From: the next batch wanted of the damage that To ends; none: nothing is asked for
	asked     time.Duration    // when it was asked for
}

func (f *follower) epochOf() partition.Epoch { return f.epoch }

func (s *State) onPrepare(from partition.Member, m Prepare) {
	if m.Epoch < s.promised || m.Epoch == s.promised && s.role.epochOf() == m.Epoch && !s.follows() {
		s.send(from, Nack{Epoch: m.Epoch, Promised: s.promised})
		return
	}
	if m.Epoch > s.promised {
		s.promise(m.Epoch)
	}
	f, ok := s.role.(*follower)
	if !ok {
		return
	}
	f.candidate, f.prepared = from, true
	if s.log.durable < s.log.end {
		s.syncLog()
	}
	s.answer(f)
}

func (s *State) follows() bool {
	_, ok := s.role.(*follower)
	return ok
}

// prepareOK describes the log. Only when promise and log are durable.
func (s *State) prepareOK(epoch partition.Epoch) PrepareOK {
	return PrepareOK{
		Epoch: epoch, LastEpoch: s.log.lastEpoch(), Start: s.log.start, End: s.log.end, Chain: s.log.chain,
		HighWatermark: s.hw, Epochs: s.Epochs(), Suspect: s.suspect, Faults: slices.Clone(s.faults),
	}
}

// answer sends what the durable state allows: the PrepareOK or AppendOK that waits for it (doc.go 1).
func (s *State) answer(f *follower) {
	if s.durable < f.epoch {
		return
	}
	if f.prepared && s.log.durable == s.log.end {
		f.prepared = false
		s.send(f.candidate, s.prepareOK(f.epoch))
	}
	if !f.appending {
		return
	}
	verified := min(f.verified, s.readable()) // what cannot be read props nothing up (R11)
	ok := AppendOK{
		Epoch: f.epoch, Round: f.round, Match: min(verified, s.log.durable), Written: min(verified, s.log.written), HighWatermark: s.hw,
	}
	switch {
	case mutant.Is(mutant.AckBeforeFsync):
		ok.Match = ok.Written
	case mutant.Is(mutant.MatchWholeLog):
		ok.Match = s.log.durable
	}
	news := ok.Match > f.acked.Match || s.cfg.Counting == CountWritten && ok.Written > f.acked.Written
	if !news && !f.owed {
		return
	}
	f.acked, f.owed = ok, false
	s.send(f.leader, ok)
}

func (s *State) onAppend(from partition.Member, m Append) {
	stale := m.Epoch < s.promised
	if stale && !mutant.Is(mutant.AcceptStaleAppend) {
		s.send(from, Nack{Epoch: m.Epoch, Round: m.Round, Promised: s.promised})
		return
	}
	if m.Epoch > s.promised {
		s.promise(m.Epoch)
	}
	f, ok := s.role.(*follower)
	if ok && stale {
		f.epoch = m.Epoch
	}
	if !ok || f.epoch != m.Epoch {
		return // this process leads or tries to lead the epoch
	}
	if !f.appending {
		f.leader, f.appending, f.prepared = from, true, false
	}
	if bad, ok := s.within(m.Prev); ok {
		s.send(from, Nack{Epoch: m.Epoch, Round: m.Round, Hint: s.log.hintAt(bad.From, m.PrevEpoch)})
		return
	}
	if !s.holds(m) {
		s.send(from, Nack{Epoch: m.Epoch, Round: m.Round, Hint: s.log.hintAt(m.Prev, m.PrevEpoch)})
		return
	}
	added := s.take(f, m)
	if s.quarantined {
		return
	}
	f.round = max(f.round, m.Round)
	f.owed = f.owed || !added // what was added is answered when it counts
	hw := min(m.HighWatermark, f.verified, s.log.written)
	if mutant.Is(mutant.UncappedHW) {
		hw = min(m.HighWatermark, s.log.written)
	}
	s.commit(hw, min(hw, s.log.durable))
	s.answer(f)
	s.askMend(f)
}

// onInstall takes a part of what the partition was at the leader's local start, if the log does not reach there. At is committed: what this log
// holds otherwise is not, or is older.
func (s *State) onInstall(from partition.Member, m Install) {
	if m.Epoch < s.promised {
		s.send(from, Nack{Epoch: m.Epoch, Round: m.Round, Promised: s.promised})
		return
	}
	if m.Epoch > s.promised {
		s.promise(m.Epoch)
	}
	f, ok := s.role.(*follower)
	if !ok || f.epoch != m.Epoch || m.At < s.hw {
		return
	}
	if chain, known := s.log.chainAt(m.At); known && chain == m.Chain {
		return // it is here
	}
	s.emit(TakeInstall{Install: m})
}

// holds tells whether the log has what the Append continues.
func (s *State) holds(m Append) bool {
	if m.Prev > s.log.end || m.PrevEpoch != s.log.epochBefore(m.Prev) {
		return false
	}
	if m.Prev < s.log.floor {
		return true // committed: nothing there can differ
	}
	chain, ok := s.log.chainAt(m.Prev)
	want := m.PrevChain
	if len(m.Entries) > 0 {
		want = m.Entries[0].Chain
	} else if want == 0 {
		return true // the leader does not know: committed
	}
	if !ok || chain != want {
		s.quarantine("the log has another batch before %d in epoch %d than its leader: chain %x", m.Prev, m.PrevEpoch, chain)
		return false
	}
	return true
}

// take compares the entries with the log, cuts where they part, and appends the rest.
func (s *State) take(f *follower, m Append) (appended bool) {
	var added []Entry
	at := m.Prev
	for i := range m.Entries {
		e := &m.Entries[i]
		base, next := partition.Offset(e.BaseOffset), partition.Offset(e.NextOffset())
		if base != at {
			break // not contiguous: damaged on the way
		}
		if next > s.log.floor && s.damagedAt(base) {
			break // not to be compared, and not to be cut: it was durable once
		}
		if next <= s.log.floor || base < s.log.end && len(added) == 0 && s.same(e) {
			at = next
			continue
		}
		if s.quarantined {
			return false
		}
		if base < s.log.end {
			if base < s.hw {
				s.quarantine("told to truncate to %d, below the high watermark %d, by epoch %d", base, s.hw, m.Epoch)
				return false
			}
			s.truncate(base)
			f.verified = min(f.verified, base)
		}
		if s.log.check(&e.Header) != nil {
			break
		}
		s.append(e)
		added = append(added, *e)
		at = next
	}
	f.verified = max(f.verified, at)
	if len(added) > 0 {
		s.emit(AppendLog{Generation: s.log.gen, Entries: added, End: s.log.end})
		s.syncLog()
	}
	return len(added) > 0
}

// same tells whether the log holds this batch. The same place and epoch with other content is no conflict but damage.
func (s *State) same(e *Entry) bool {
	i, ok := s.log.find(partition.Offset(e.BaseOffset))
	if !ok {
		return false
	}
	it := s.log.live()[i]
	if it.epoch != partition.Epoch(e.Epoch) {
		return false
	}
	after := s.log.chain
	if i+1 < len(s.log.live()) {
		after = s.log.live()[i+1].chain
	}
	if it.chain != e.Chain || after != batch.NextChain(e.Msg) {
		s.quarantine("two different batches at %d in epoch %d", e.BaseOffset, e.Epoch)
		return false
	}
	return true
}

// onFetch serves a candidate that this replica has promised its epoch to; nobody else changes the log meanwhile.
func (s *State) onFetch(from partition.Member, m Fetch) {
	if m.Epoch != s.promised || s.durable < m.Epoch || m.From >= m.Until || m.Until > s.log.durable {
		return
	}
	s.emit(ServeFetch{To: from, Epoch: m.Epoch, From: m.From, Until: m.Until})
}
