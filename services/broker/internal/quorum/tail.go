package quorum

import (
	"fmt"
	"slices"
	"sort"

	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// item is a batch that may still be truncated, without its bytes.
type item struct {
	base, next partition.Offset
	epoch      partition.Epoch
	chain      uint64 // its own chain word: over everything before it
	time       int64  // append time
	before     segment
}

// tail is what the core keeps of a log: the end, the epochs, the marks, and the batches at or above floor. Below floor everything is
// committed, and only the epochs are known.
type tail struct {
	start   partition.Offset
	floor   partition.Offset
	end     partition.Offset
	chain   uint64 // of the batch that comes at end
	time    int64  // append time of the last batch
	epochs  []EpochStart
	items   []item
	head    int // items before it are gone
	segment segment
	below   int64 // append time of the last batch below floor
	gen     uint64
	written partition.Offset
	durable partition.Offset // the persisted mark
	// unchained: the end cannot be read, and nothing can be put behind it.
	unchained bool
}

// live gives the batches at or above floor.
func (t *tail) live() []item { return t.items[t.head:] }

// lastEpoch is the epoch of the last batch, 0 = an empty log.
func (t *tail) lastEpoch() partition.Epoch {
	if len(t.epochs) == 0 {
		return 0
	}
	return t.epochs[len(t.epochs)-1].Epoch
}

// extend adds a stamped batch that fits the end. next is the chain word of its successor.
func (t *tail) extend(h *batch.Header, next uint64) {
	base, end := partition.Offset(h.BaseOffset), partition.Offset(h.NextOffset())
	t.items = append(t.items, item{
		base: base, next: end, epoch: partition.Epoch(h.Epoch), chain: h.Chain, time: h.AppendTime, before: t.segment,
	})
	if epoch := partition.Epoch(h.Epoch); epoch != t.lastEpoch() {
		t.epochs = append(t.epochs, EpochStart{Epoch: epoch, Start: base})
	}
	t.segment.add(h)
	t.end, t.chain, t.time = end, next, h.AppendTime
}

// check tells why a stamped batch does not fit the end, nil if it does.
func (t *tail) check(h *batch.Header) error {
	switch {
	case partition.Offset(h.BaseOffset) != t.end:
		return fmt.Errorf("batch at %d does not follow %d", h.BaseOffset, t.end)
	case h.Chain != t.chain:
		return fmt.Errorf("batch at %d has chain %x, the log has %x", h.BaseOffset, h.Chain, t.chain)
	case partition.Epoch(h.Epoch) < t.lastEpoch():
		return fmt.Errorf("batch at %d has epoch %d after %d", h.BaseOffset, h.Epoch, t.lastEpoch())
	case h.SegmentBase != h.BaseOffset && partition.Offset(h.SegmentBase) != t.segment.base:
		return fmt.Errorf("batch at %d says segment %d, the log is in %d", h.BaseOffset, h.SegmentBase, t.segment.base)
	}
	return nil
}

// cut drops everything at or above to, which is the base of a batch at or above floor, or the end. The generation is new and marks are
// lowered to the cut (R1).
func (t *tail) cut(to partition.Offset) {
	for len(t.live()) > 0 && t.end > to {
		last := t.items[len(t.items)-1]
		t.items = t.items[:len(t.items)-1]
		t.end, t.chain, t.segment = last.base, last.chain, last.before
	}
	for len(t.epochs) > 0 && t.epochs[len(t.epochs)-1].Start >= t.end {
		t.epochs = t.epochs[:len(t.epochs)-1]
	}
	t.time = t.below
	if live := t.live(); len(live) > 0 {
		t.time = live[len(live)-1].time
	}
	t.gen++
	t.unchained = false
	t.written = min(t.written, t.end)
	if !mutant.Is(mutant.DurableMarkKept) {
		t.durable = min(t.durable, t.end)
	}
}

// settle forgets the batches that end at or below hw.
func (t *tail) settle(hw partition.Offset) {
	for t.head < len(t.items) && t.items[t.head].next <= hw {
		t.below = t.items[t.head].time
		t.floor = t.items[t.head].next
		t.head++
	}
	if t.head == len(t.items) {
		t.items, t.head = t.items[:0], 0
	} else if t.head > 1024 && t.head > len(t.items)/2 {
		t.items = slices.Delete(t.items, 0, t.head)
		t.head = 0
	}
}

// find gives the place in live of the batch that begins at base.
func (t *tail) find(base partition.Offset) (int, bool) {
	return slices.BinarySearchFunc(t.live(), base, func(i item, base partition.Offset) int {
		switch {
		case i.base < base:
			return -1
		case i.base > base:
			return 1
		default:
			return 0
		}
	})
}

// chainAt gives the chain word of the batch at a boundary at or above floor; ok is false elsewhere.
func (t *tail) chainAt(at partition.Offset) (chain uint64, ok bool) {
	if at == t.end {
		return t.chain, true
	}
	if i, found := t.find(at); found {
		return t.live()[i].chain, true
	}
	return 0, false
}

// epochBefore gives the epoch of the batch that ends at or spans to at, 0 if at is where the log began.
func (t *tail) epochBefore(at partition.Offset) partition.Epoch { return epochBefore(t.epochs, at) }

func epochBefore(epochs []EpochStart, at partition.Offset) partition.Epoch {
	i := sort.Search(len(epochs), func(i int) bool { return epochs[i].Start >= at })
	if i == 0 {
		return 0
	}
	return epochs[i-1].Epoch
}

// endOf gives where an epoch ends in a log with these epochs and this end: where the next later one starts.
func endOf(epochs []EpochStart, end partition.Offset, epoch partition.Epoch) partition.Offset {
	for _, e := range epochs {
		if e.Epoch > epoch {
			return e.Start
		}
	}
	return end
}

// hintAt says what the log holds at or below at, where its leader has a batch of an epoch before it: the last epoch that is not later, and
// where it ends here. Of a later one the leader's log has nothing.
func (t *tail) hintAt(at partition.Offset, epoch partition.Epoch) Hint {
	at = min(at, t.end)
	held := t.epochBefore(at)
	for i := len(t.epochs) - 1; i >= 0 && held > epoch; i-- {
		if t.epochs[i].Start < at {
			at = t.epochs[i].Start
			held = t.epochBefore(at)
		}
	}
	return Hint{Epoch: held, End: min(at, endOf(t.epochs, t.end, held))}
}

// common gives the greatest offset up to which this log may agree with another's, by their epochs alone: the end of the last epoch that
// both hold, as far as both hold it. By log matching they do agree up to there.
func common(mine []EpochStart, myEnd partition.Offset, theirs []EpochStart, theirEnd partition.Offset) partition.Offset {
	i, j := len(mine)-1, len(theirs)-1
	for i >= 0 && j >= 0 {
		switch a, b := mine[i], theirs[j]; {
		case a.Epoch > b.Epoch:
			i--
		case a.Epoch < b.Epoch:
			j--
		default:
			return min(endOf(mine, myEnd, a.Epoch), endOf(theirs, theirEnd, b.Epoch))
		}
	}
	return 0
}
