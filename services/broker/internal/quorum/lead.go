package quorum

import (
	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// leader serves an active epoch.
type leader struct{ term }

func (l *leader) epochOf() partition.Epoch { return l.epoch }

// stamp gives a batch its place at the end of the log: offset, segment, epoch, time, chain. It starts a segment if cut is asked for or due.
func (s *State) stamp(e *Entry, epoch partition.Epoch, now int64, cut bool) {
	seg := &s.log.segment
	now = max(now, s.log.time) // append times of a partition never go back
	stamps := batch.Stamps{
		SegmentBase: uint64(seg.base), BaseOffset: uint64(s.log.end), Epoch: uint64(epoch), AppendTime: now,
		Chain: s.log.chain, CommitHint: uint64(s.persisted), PartitionTag: s.cfg.Tag,
	}
	if cut || seg.full(s.cfg.Cut, e.Size, now) {
		s.emit(Cut{Base: seg.base, End: s.log.end})
		stamps.SegmentBase = stamps.BaseOffset
	}
	batch.Stamp(e.Msg, stamps)
	e.SegmentBase, e.BaseOffset, e.Epoch, e.AppendTime = stamps.SegmentBase, stamps.BaseOffset, stamps.Epoch, stamps.AppendTime
	e.Chain, e.CommitHint, e.PartitionTag = stamps.Chain, stamps.CommitHint, stamps.PartitionTag
	s.append(e)
}

// onPropose appends a group and pushes it. The caller has asked CanPropose in the same step.
func (s *State) onPropose(ev Propose) {
	l, ok := s.role.(*leader)
	if !ok || len(ev.Entries) == 0 {
		return
	}
	s.now = max(s.now, ev.Time)
	for i := range ev.Entries {
		s.stamp(&ev.Entries[i], l.epoch, ev.Time, false)
	}
	s.appended(l, ev.Entries)
}

// appended has a group of the leader written, persisted if the policy says so, and pushed.
func (s *State) appended(l *leader, entries []Entry) {
	s.emit(AppendLog{Generation: s.log.gen, Entries: entries, End: s.log.end})
	if s.cfg.SyncEveryGroup {
		s.syncLog()
	}
	s.push(&l.term)
}

func (s *State) onSealRequested(ev SealRequested) {
	if l, ok := s.role.(*leader); ok && s.log.segment.data {
		s.cutSegment(l, ev.Time)
	}
}

// cutSegment ends the open segment by a control batch that starts the next.
func (s *State) cutSegment(l *leader, now int64) {
	msg, err := batch.BuildControl(nil, func(control batchcapnp.Control) error {
		control.SetCut()
		return nil
	})
	if err != nil {
		return // tried again by the next tick or request; building a void cannot fail
	}
	entry, err := controlEntry(msg)
	if err != nil {
		return
	}
	s.stamp(&entry, l.epoch, now, true)
	s.appended(l, []Entry{entry})
}

// count moves the high watermark to what a majority holds, if that lies behind this epoch's start (doc.go 3).
func (s *State) count(l *leader) {
	own := s.log.durable
	if mutant.Is(mutant.LeaderCountsUnsynced) {
		own = s.log.end
	}
	persisted := l.held(own, persistedAt)
	hw := persisted
	if s.cfg.Counting == CountWritten {
		hw = max(hw, l.held(s.log.written, writtenAt))
	}
	if hw <= l.start && !mutant.Is(mutant.NoEpochStart) {
		return // cannot be: the epoch is active because a majority has its start
	}
	before := s.hw
	s.commit(hw, persisted)
	if s.hw > before {
		s.push(&l.term)
	}
}
