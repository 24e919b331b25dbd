package journal

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
)

// State is what a journal knows of the replicas of its disk.
type State struct {
	Replicas map[partition.UUID]Replica
	Ring     RingState
}

// RingState says what of the ring is live. A group with a sequence below Tail is dead: what it holds is in the files.
type RingState struct {
	ID   uint64 // of the ring's present use: bytes of an earlier one are not valid
	Tail uint64 // the first group that is live
	Used bool   // there may be live groups; false after a clean stop
}

// merge takes in what a record says. Within one use the tail only grows, in whatever order its records were Put.
func (s RingState) merge(r Record) RingState {
	next := RingState{ID: r.word(0), Tail: r.word(1), Used: r.word(2) == 1}
	next.Tail = max(next.Tail, s.Tail)
	return next
}

// Replica is the state of one replica that is not in its log.
type Replica struct {
	ID      partition.ID
	Promise partition.Epoch  // no epoch below is accepted
	HW      partition.Offset // a floor: never truncated below
	Mark    segment.Mark     // durable up to here
	Origin  Origin           // where its log begins while it has no file
	Faults  []segment.Range  // known to be corrupt; not to be changed
	Ragged  bool             // the end may have lost what was acknowledged
	Acked   partition.Offset // acknowledged up to here, durable or not; 0 = all that was is durable
}

// Origin is the offset and chain word at which an empty log begins.
type Origin struct {
	Offset partition.Offset
	Chain  uint64
}

// apply changes the state by a record that passed check. It fails for a replica that was never created.
func (s *State) apply(r Record) error {
	if r.kind == KindRing {
		s.Ring = s.Ring.merge(r)
		return nil
	}
	known, ok := s.Replicas[r.replica]
	if r.kind == KindCreated {
		if !ok {
			id := partition.ID{Topic: partition.UUID(r.payload[:16]), Index: partition.Index(r.word(2))}
			s.Replicas[r.replica] = Replica{ID: id, Origin: Origin{partition.Offset(r.word(3)), r.word(4)}}
		}
		return nil
	}
	if !ok {
		return fmt.Errorf("%w: %s of replica %s, which was not created", errRecord, r.kind, r.replica)
	}
	switch r.kind {
	case KindDeleted:
		delete(s.Replicas, r.replica)
		return nil
	case KindPromise:
		known.Promise = max(known.Promise, partition.Epoch(r.word(0)))
	case KindHW:
		known.HW = max(known.HW, partition.Offset(r.word(0)))
	case KindMark:
		if m := r.mark(); m.Generation > known.Mark.Generation ||
			m.Generation == known.Mark.Generation && m.Offset >= known.Mark.Offset {
			known.Mark = m
		}
	case KindFaults:
		known.Faults = r.faults()
	case KindRagged:
		known.Ragged = r.word(0) == 1
	case KindAcked:
		known.Acked = partition.Offset(r.word(0))
	}
	s.Replicas[r.replica] = known
	return nil
}

// records gives the shortest list that makes this state, the same for the same state.
func (s *State) records() []Record {
	replicas := slices.SortedFunc(maps.Keys(s.Replicas), func(a, b partition.UUID) int { return bytes.Compare(a[:], b[:]) })
	var out []Record
	if s.Ring != (RingState{}) {
		out = append(out, ringRecord(s.Ring))
	}
	for _, uuid := range replicas {
		r := s.Replicas[uuid]
		out = append(out, Created(uuid, r.ID, r.Origin))
		if r.Promise != 0 {
			out = append(out, Promise(uuid, r.Promise))
		}
		if r.Mark != (segment.Mark{}) {
			out = append(out, Mark(uuid, r.Mark))
		}
		if r.HW != 0 {
			out = append(out, HW(uuid, r.HW))
		}
		if len(r.Faults) > 0 {
			out = append(out, Faults(uuid, r.Faults))
		}
		if r.Ragged {
			out = append(out, Ragged(uuid, true))
		}
		if r.Acked != 0 {
			out = append(out, Acked(uuid, r.Acked))
		}
	}
	return out
}

// clone copies the map; fault lists are shared and never changed.
func (s *State) clone() State { return State{Replicas: maps.Clone(s.Replicas), Ring: s.Ring} }
