package fold

import (
	"fmt"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/producer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// waiting is a batch above the high watermark. control is set for control batches; it has its own bytes.
type waiting struct {
	header  batch.Header
	control *batchcapnp.Control
}

// boundary is the snapshot at the end of a segment.
type boundary struct {
	end      partition.Offset
	snapshot []byte
}

// State is a fold over the log.
type State struct {
	Producers *producer.Table
	Tier      *sealed.Table

	end        partition.Offset
	chain      uint64
	time       int64
	epochs     []quorum.EpochStart
	queue      []waiting
	head       int // entries before it are folded
	boundaries []boundary
	seals      []sealed.Seal // committed since TakeSeals
	compacted  bool          // a Compact was committed since TakeCompacted
}

// New makes the state of a log that begins at start.
func New(start partition.Offset, chain uint64) *State {
	return &State{Producers: producer.New(), Tier: &sealed.Table{}, end: start, chain: chain}
}

// End is the offset that the state is as of.
func (s *State) End() partition.Offset { return s.end }

// Chain is the chain word of the batch at End.
func (s *State) Chain() uint64 { return s.chain }

// Time is the append time of the last batch before End, microseconds since 1970.
func (s *State) Time() int64 { return s.time }

// Epochs are the epochs up to End. The slice is a copy.
func (s *State) Epochs() []quorum.EpochStart { return slices.Clone(s.epochs) }

// Add takes in a stamped batch at the end of the log. msg may be reused afterwards.
func (s *State) Add(h *batch.Header, msg []byte) error {
	if h.Flags&batch.FlagRewritten != 0 {
		// Producers' words do not say any more what was published. Compaction stays below the newest snapshots, so one of them is missing.
		return fault.Errorf(fault.Corrupt, "fold batch at %d: compaction has rewritten it, and no snapshot of behind it can be used", h.BaseOffset)
	}
	w := waiting{header: *h}
	if h.IsControl() {
		control, err := batch.ReadControl(slices.Clone(msg))
		if err != nil {
			return fault.Errorf(fault.Corrupt, "read control batch at %d: %w", h.BaseOffset, err)
		}
		w.control = &control
	}
	s.queue = append(s.queue, w)
	s.Producers.Append(h)
	return nil
}

// Cut takes back what was added at or above to.
func (s *State) Cut(to partition.Offset) {
	for len(s.queue) > s.head && partition.Offset(s.queue[len(s.queue)-1].header.BaseOffset) >= to {
		last := len(s.queue) - 1
		s.Producers.Cut(&s.queue[last].header)
		s.queue = s.queue[:last]
	}
}

// Commit folds what ends at or below hw.
func (s *State) Commit(hw partition.Offset) error {
	for s.head < len(s.queue) && partition.Offset(s.queue[s.head].header.NextOffset()) <= hw {
		w := &s.queue[s.head]
		if err := s.fold(w); err != nil {
			return err
		}
		*w = waiting{}
		s.head++
	}
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	} else if s.head > 1024 && s.head > len(s.queue)/2 {
		s.queue = slices.Delete(s.queue, 0, s.head)
		s.head = 0
	}
	return nil
}

func (s *State) fold(w *waiting) error {
	h := &w.header
	base, next := partition.Offset(h.BaseOffset), partition.Offset(h.NextOffset())
	if base != s.end {
		return fault.Errorf(fault.Corrupt, "fold batch at %d: the state is as of %d", base, s.end)
	}
	if h.SegmentBase == h.BaseOffset && base > 0 {
		s.chain = h.Chain
		snapshot, err := s.Encode()
		if err != nil {
			return err
		}
		s.boundaries = append(s.boundaries, boundary{end: base, snapshot: snapshot})
	}
	if epoch := partition.Epoch(h.Epoch); len(s.epochs) == 0 || s.epochs[len(s.epochs)-1].Epoch != epoch {
		s.epochs = append(s.epochs, quorum.EpochStart{Epoch: epoch, Start: base})
	}
	s.end, s.time = next, h.AppendTime
	s.Producers.Commit(h)
	if w.control == nil {
		return nil
	}
	sealedEnd := s.Tier.SealedEnd()
	if err := s.Tier.Apply(*w.control, next); err != nil {
		return fault.Wrap("fold control batch", fault.Errorf(fault.Corrupt, "%w", err))
	}
	switch w.control.Which() {
	case batchcapnp.Control_Which_producerExpire:
		return s.expire(*w.control)
	case batchcapnp.Control_Which_compact:
		s.compacted = true
	case batchcapnp.Control_Which_seal:
		seal, err := sealed.ReadSeal(*w.control)
		if err != nil {
			return fault.Errorf(fault.Corrupt, "read seal: %w", err)
		}
		if seal.End == s.Tier.SealedEnd() && seal.End > sealedEnd {
			s.seals = append(s.seals, seal)
		}
	}
	return nil
}

// TakeSeals gives the Seals that were committed since it was last called, in order.
func (s *State) TakeSeals() []sealed.Seal {
	seals := s.seals
	s.seals = nil
	return seals
}

// TakeCompacted tells whether a Compact was committed since it was last called, so that a Seal may say other bytes than the disk has.
func (s *State) TakeCompacted() bool {
	compacted := s.compacted
	s.compacted = false
	return compacted
}

func (s *State) expire(control batchcapnp.Control) error {
	in, err := control.ProducerExpire()
	if err != nil {
		return fault.Errorf(fault.Corrupt, "read producer expiry: %w", err)
	}
	list, err := in.ProducerIds()
	if err != nil {
		return fault.Errorf(fault.Corrupt, "read producer expiry: %w", err)
	}
	ids := make([]uint64, 0, min(list.Len(), producer.SessionsMax))
	for i := range list.Len() {
		ids = append(ids, list.At(i))
	}
	s.Producers.Expire(ids)
	return nil
}

// Boundary gives the snapshot at the end of a segment, if it is kept.
func (s *State) Boundary(end partition.Offset) ([]byte, bool) {
	for _, b := range s.boundaries {
		if b.end == end {
			return b.snapshot, true
		}
	}
	return nil, false
}

// Sealed forgets the snapshots up to a segment's end.
func (s *State) Sealed(end partition.Offset) {
	s.boundaries = slices.DeleteFunc(s.boundaries, func(b boundary) bool { return b.end <= end })
}

// Encode gives the snapshot as of End: one Snapshot message.
func (s *State) Encode() ([]byte, error) {
	data, err := encode(s)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot at %d: %w", s.end, err)
	}
	return data, nil
}
