package wal

import (
	"errors"
	"fmt"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
)

// Repair puts good batches, as another replica or the bucket has them, in the place of a damaged range: all of it, from its From to its To.
// They must be the ones that were there: same offsets, same chain on both sides, same digest where the segment is sealed. A closed or sealed
// segment gets a new file; the last one is written over in place. The result is durable when it returns, and the range is no fault any more.
// The caller has its list of faults durable: it may be shorter only after Repair.
//
// What does not fit is fault.Invalid and changes nothing; a full disk is fault.DiskFull.
func (l *Log) Repair(batches [][]byte) error {
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if err := l.usable("repair"); err != nil {
		return err
	}
	i, err := l.repairable(batches)
	if err != nil {
		return &fault.Error{Kind: fault.Invalid, Op: "repair", Err: err}
	}
	r := l.faults[i]
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.repairIn(r, batches); err != nil {
		return fault.Wrap(op("repair", r.From), l.fail(err))
	}
	l.faults = slices.Delete(slices.Clone(l.faults), i, i+1)
	l.relist()
	end := segment.Place{Offset: l.tail.End, Chain: l.tail.Chain, Unchained: l.broken}
	if r.To == end.Offset {
		end.Chain, end.Unchained = batch.NextChain(batches[len(batches)-1]), false
		if l.open != nil {
			l.overhang = false
		}
	}
	l.retail(end)
	l.publish()
	return nil
}

// repairable finds the range that the batches fill, and sees that they are what was there.
func (l *Log) repairable(batches [][]byte) (int, error) {
	if len(batches) == 0 {
		return 0, errors.New("no batches")
	}
	var next partition.Offset
	var chain uint64
	found := -1
	for i, msg := range batches {
		h, err := batch.ParseHeader(msg)
		if err == nil {
			err = batch.CheckBody(msg)
		}
		if err != nil {
			return 0, err
		}
		if i == 0 {
			next, chain = partition.Offset(h.BaseOffset), h.Chain
			found = slices.IndexFunc(l.faults, func(r segment.Range) bool { return r.From == next })
			if found < 0 {
				return 0, fmt.Errorf("no damaged range begins at %d", next)
			}
		}
		if h.BaseOffset != uint64(next) || h.Chain != chain || h.PartitionTag != l.tag || h.SegmentBase != uint64(l.faults[found].Base) {
			return 0, fmt.Errorf("batch %d does not continue the ones before", h.BaseOffset)
		}
		next, chain = partition.Offset(h.NextOffset()), batch.NextChain(msg)
	}
	r := l.faults[found]
	if next != r.To {
		return 0, fmt.Errorf("batches [%d, %d) for the range [%d, %d)", r.From, next, r.From, r.To)
	}
	first, err := batch.ParseHeader(batches[0])
	if err != nil {
		return 0, err
	}
	return found, l.sides(r, first.Chain, chain)
}

// sides compares the chain on both sides of a range with what the log has there, where that can be read.
func (l *Log) sides(r segment.Range, before, behind uint64) error {
	v := l.view.Load()
	if r.To < v.tail.End {
		h, _, err := v.find(r.To).Header(r.To)
		if err == nil && h.Chain != behind {
			return fmt.Errorf("the batch at %d has chain %#x, expected %#x", r.To, h.Chain, behind)
		}
	} else if !v.broken && behind != v.tail.Chain {
		return fmt.Errorf("the end has chain %#x, expected %#x", v.tail.Chain, behind)
	}
	if r.From > v.start {
		place, _, _, err := l.boundary(r.From)
		if err == nil && !place.Unchained && place.Chain != before {
			return fmt.Errorf("at %d the chain is %#x, not %#x", r.From, place.Chain, before)
		}
	}
	return nil
}

// repairIn repairs the segment of a range.
func (l *Log) repairIn(r segment.Range, batches [][]byte) error {
	begin := segment.Place{Offset: r.Base, Unchained: true}
	if r.From == r.Base {
		h, err := batch.ParseHeader(batches[0])
		if err != nil {
			return err
		}
		begin = segment.Place{Offset: r.Base, Chain: h.Chain}
	}
	for i, s := range l.sealed {
		if s.Summary().Base != r.Base {
			continue
		}
		repaired, err := s.Repair(begin, r, batches)
		if err != nil {
			return err
		}
		l.sealed = slices.Clone(l.sealed)
		l.sealed[i] = repaired
		return nil
	}
	for i, c := range l.closed {
		if c.Summary().Base != r.Base {
			continue
		}
		repaired, err := c.Repair(begin, r, batches)
		if err != nil {
			return err
		}
		l.closed = slices.Clone(l.closed)
		l.closed[i] = repaired
		return nil
	}
	repaired, err := l.open.Repair(begin, r, batches)
	if err != nil {
		return err
	}
	l.open = repaired
	return nil
}
