package quorum

import (
	"fmt"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
)

// Counting says which mark a majority is counted by.
type Counting uint8

// Ways of counting.
const (
	// CountPersisted: a batch is committed when a majority has it on disk.
	CountPersisted Counting = iota
	// CountWritten: when a majority has it in the page cache (relaxed topics, weaker sync policies).
	CountWritten
)

// Config is what does not change while a State lives.
type Config struct {
	Self        partition.Member
	Incarnation partition.Incarnation
	Tag         uint64 // batch.PartitionTag
	Counting    Counting
	// SyncEveryGroup asks for a sync behind every group of appends; without it only where the protocol needs one.
	SyncEveryGroup bool
	Cut            CutPolicy
}

// Recovered is a log as of the offset where its replay begins: the end of its newest snapshot, or its start.
type Recovered struct {
	Start, End    partition.Offset
	Chain         uint64
	Time          int64 // append time of the last batch
	Epochs        []EpochStart
	Promised      partition.Epoch
	HighWatermark partition.Offset // a floor
	Suspect       bool             // recovery cut an unproven tail, in this life or an earlier one
	Faults        []Range          // all of the log that cannot be read, in order
	Lossy         bool             // records that were acknowledged are gone
}

// role is what a replica does in its epoch: follower, candidate or leader.
type role interface{ epochOf() partition.Epoch }

// State is the protocol state of one replica. See doc.go.
type State struct {
	cfg         Config
	log         tail
	suspect     bool
	lossy       bool
	faults      []Range // ascending
	unknown     bool    // some control batches cannot be read
	quarantined bool

	promised  partition.Epoch // perhaps not yet durable
	durable   partition.Epoch // promised durably
	hw        partition.Offset
	persisted partition.Offset // a majority has everything below on disk
	role      role

	assigned topology.Assignment
	revision int64
	elapsed  time.Duration
	now      int64 // the latest time an event told, for what the core appends by itself

	out []Effect
}

// New makes the state of a replica whose log has been recovered up to r.End. Replay follows for what lies behind it.
func New(cfg Config, r Recovered) *State {
	s := &State{
		cfg: cfg, suspect: r.Suspect, lossy: r.Lossy, faults: slices.Clone(r.Faults), promised: r.Promised, durable: r.Promised,
		hw: r.HighWatermark, persisted: r.HighWatermark,
		log: tail{
			start: r.Start, floor: r.End, end: r.End, chain: r.Chain, time: r.Time, below: r.Time,
			epochs: slices.Clone(r.Epochs), segment: segment{base: r.End}, written: r.End, durable: r.End, gen: 1,
		},
	}
	s.role = &follower{epoch: s.promised}
	return s
}

// Replay adds a batch that the recovered log holds, before the first Step. next is the chain word of its successor.
func (s *State) Replay(h *batch.Header, next uint64) error {
	if err := s.log.check(h); err != nil {
		return err
	}
	s.log.extend(h, next)
	s.log.written, s.log.durable = s.log.end, s.log.end
	// Whoever holds this batch holds its leader's log before it, of which that much was committed then.
	s.hw = max(s.hw, partition.Offset(h.CommitHint))
	s.log.settle(s.hw)
	return nil
}

// Opened ends the replay. promised becomes at least the last epoch in the log, and a high watermark above the log is lowered to its end,
// which makes the replica suspect (R15).
func (s *State) Opened() {
	if s.hw > s.log.end {
		s.hw, s.suspect = s.log.end, true
	}
	s.persisted = min(s.persisted, s.hw)
	s.promised = max(s.promised, s.log.lastEpoch())
	s.durable = s.promised
	s.role = &follower{epoch: s.promised}
}

// Step takes one event in and gives the effects to carry out, in order. The slice is the State's until the next Step.
func (s *State) Step(ev Event) []Effect {
	s.out = s.out[:0]
	if s.quarantined {
		return nil
	}
	switch ev := ev.(type) {
	case Assigned:
		s.onAssigned(ev)
	case Promised:
		s.onPromised(ev)
	case Received:
		s.onReceived(ev)
	case Propose:
		s.onPropose(ev)
	case Written:
		s.onWritten(ev)
	case Persisted:
		s.onPersisted(ev)
	case Unwritten:
		s.onUnwritten(ev)
	case Activation:
		s.onActivation(ev)
	case Tick:
		s.onTick(ev)
	case SealRequested:
		s.onSealRequested(ev)
	case Damaged:
		s.onDamaged(ev)
	case ReadIndex:
		s.onReadIndex()
	case Configured:
		s.cfg.Cut, s.cfg.Counting, s.cfg.SyncEveryGroup = ev.Cut, ev.Counting, ev.SyncEveryGroup
	}
	return s.out
}

func (s *State) emit(e Effect) { s.out = append(s.out, e) }

func (s *State) send(to partition.Member, m Message) { s.emit(Send{To: to, Message: m}) }

// quarantine ends the replica's part in the protocol.
func (s *State) quarantine(format string, args ...any) {
	if s.quarantined {
		return
	}
	s.stepDown("quarantined")
	s.quarantined = true
	s.emit(Quarantine{Reason: fmt.Sprintf(format, args...)})
}

// stepDown makes a candidate or leader a follower; nothing for a follower.
func (s *State) stepDown(reason string) {
	if _, ok := s.role.(*follower); ok {
		return
	}
	epoch := s.role.epochOf()
	s.role = &follower{epoch: s.promised}
	s.emit(StepDown{Epoch: epoch, Reason: reason})
}

// promise raises the promise and asks for it to be made durable. A role in a lower epoch ends.
func (s *State) promise(epoch partition.Epoch) {
	s.promised = epoch
	s.emit(PersistPromise{Epoch: epoch})
	if mutant.Is(mutant.TruncateToHW) && s.hw < s.log.end {
		s.truncate(s.hw)
	}
	if s.role.epochOf() < epoch {
		s.stepDown(fmt.Sprintf("epoch %d was promised", epoch))
		s.role = &follower{epoch: epoch}
	}
}

// append puts a batch that fits behind the end and returns it ready to be written.
func (s *State) append(e *Entry) {
	s.log.extend(&e.Header, batch.NextChain(e.Msg))
}

func (s *State) syncLog() { s.emit(SyncLog{Generation: s.log.gen, End: s.log.end}) }

func (s *State) truncate(to partition.Offset) {
	s.log.cut(to)
	s.emit(TruncateLog{Generation: s.log.gen, To: s.log.end})
}

// commit raises the high watermark and the persisted one; never back.
func (s *State) commit(hw, persisted partition.Offset) {
	if hw <= s.hw && persisted <= s.persisted {
		return
	}
	s.hw = max(s.hw, hw)
	s.persisted = max(s.persisted, min(persisted, s.hw))
	s.log.settle(s.hw)
	s.emit(Commit{HighWatermark: s.hw, Persisted: s.persisted})
}

func (s *State) onPromised(ev Promised) {
	s.durable = max(s.durable, min(ev.Epoch, s.promised))
	s.progress()
}

func (s *State) onWritten(ev Written) {
	if ev.Generation != s.log.gen {
		return // of a log that has been cut since (R1)
	}
	s.log.written = max(s.log.written, min(ev.End, s.log.end))
	s.progress()
}

func (s *State) onPersisted(ev Persisted) {
	if ev.Generation != s.log.gen {
		return // R1
	}
	s.log.durable = max(s.log.durable, min(ev.End, s.log.end))
	s.log.written = max(s.log.written, s.log.durable)
	s.progress()
}

// onUnwritten takes back what the disk had no room for. Nobody else holds it, because only what is written is sent: it is certainly not
// stored. With others about, the epoch ends, so that one with room may lead.
func (s *State) onUnwritten(ev Unwritten) {
	if ev.Generation != s.log.gen || ev.From >= s.log.end {
		return
	}
	switch r := s.role.(type) {
	case *leader:
		if len(r.peers) > 0 {
			s.stepDown("the disk is full")
		}
	case *candidate:
		s.stepDown("the disk is full")
	}
	s.truncate(ev.From)
}

// progress lets the role act on a mark or promise that moved.
func (s *State) progress() {
	switch r := s.role.(type) {
	case *follower:
		s.answer(r)
	case *candidate:
		s.advance(r)
	case *leader:
		s.count(r)
	}
	s.catchUp()
}

func (s *State) onTick(ev Tick) {
	s.elapsed, s.now = ev.Elapsed, max(s.now, ev.Time)
	switch r := s.role.(type) {
	case *candidate:
		s.retry(r)
	case *leader:
		s.resend(&r.term)
		if s.log.segment.old(s.cfg.Cut, ev.Time) {
			s.cutSegment(r, ev.Time)
		}
	}
}

func (s *State) onReceived(ev Received) {
	switch m := ev.Message.(type) {
	case Prepare:
		s.onPrepare(ev.From, m)
	case PrepareOK:
		s.onPrepareOK(ev.From, m)
	case Append:
		s.onAppend(ev.From, m)
	case AppendOK:
		s.onAppendOK(ev.From, m)
	case Nack:
		s.onNack(ev.From, m)
	case Install:
		s.onInstall(ev.From, m)
	case Fetch:
		s.onFetch(ev.From, m)
	case Fetched:
		s.onFetched(ev.From, m)
	}
}
