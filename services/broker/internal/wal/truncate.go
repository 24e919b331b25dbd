package wal

import (
	"sort"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
)

// Truncate makes the log end at an offset where a batch begins; at or behind End it does nothing. The cut is durable when it returns, and so
// is everything that stays. The caller knows that nothing from there on is committed. Order: sync, Barrier, then later segments from the last one
// back, then the segment itself.
func (l *Log) Truncate(to partition.Offset) error {
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if err := l.usable("truncate"); err != nil {
		return err
	}
	if to >= l.tail.End {
		return nil
	}
	return fault.Wrap(op("truncate", to), l.cut(to))
}

// cut is Truncate with mutate held.
func (l *Log) cut(to partition.Offset) error {
	if to < l.start() {
		return fault.Errorf(fault.Invalid, "the log starts at %d", l.start())
	}
	if n := len(l.sealed); n > 0 && to < l.sealed[n-1].Summary().End {
		return fault.Errorf(fault.Conflict, "the log is sealed up to %d", l.sealed[n-1].Summary().End)
	}
	place, last, base, err := l.boundary(to)
	if err != nil {
		return err
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	// What stays has to be in the file before the barrier ends the life of a journal's copy of it.
	if err := l.syncFile(); err != nil {
		return err
	}
	mark := segment.Mark{Generation: l.generation + 1, Base: base, Offset: to, Position: place.Position, Chain: place.Chain}
	if l.barrier != nil {
		if err := l.barrier(mark); err != nil {
			return err
		}
	}
	l.generation = mark.Generation
	if err := l.cutFiles(base, place, last); err != nil {
		return l.fail(err)
	}
	l.clipFaults(to)
	l.overhang = false
	l.relist()
	l.retail(place)
	l.publish()
	l.resetMark(mark)
	return nil
}

// boundary finds the batch boundary at an offset: its place in the segment that the batch before it is in, that batch's header (nil where the
// log begins), and the segment's base.
func (l *Log) boundary(to partition.Offset) (segment.Place, *batch.Header, partition.Offset, error) {
	v := l.view.Load()
	i := sort.Search(len(v.closed), func(i int) bool { return v.closed[i].End >= to })
	var r *segment.Reader
	switch {
	case i < len(v.closed):
		r = v.closed[i].Reader
	case v.open != nil:
		r = v.open.Reader
	}
	switch {
	case r == nil || to == l.origin.Offset:
		return segment.Place{Offset: to, Chain: l.origin.Chain, Unchained: to != l.origin.Offset}, nil, to, nil
	case to == r.Base:
		h, _, err := r.Header(to) // the log's first batch; only it says what chain is before it
		return segment.Place{Offset: to, Chain: h.Chain, Unchained: err != nil}, nil, to, nil
	}
	place, last, err := r.EndAt(to)
	return place, last, r.Base, err
}

// cutFiles takes away all segments behind the one with this base, the last one first, and cuts that one.
func (l *Log) cutFiles(base partition.Offset, place segment.Place, last *batch.Header) error {
	// Without a batch left, the file stays if only its name says where the log begins.
	named := place.Position == 0 && place.Offset == l.start() && place.Offset != l.origin.Offset
	if l.open != nil && (l.open.Summary().Base > base || place.Position == 0 && !named) {
		if err := l.open.Remove(); err != nil {
			return err
		}
		l.open = nil
	}
	for n := len(l.closed) - 1; n >= 0; n-- {
		s := l.closed[n].Summary()
		if s.Base < base || s.Base == base && (place.Position > 0 || named) {
			break
		}
		if err := l.closed[n].Remove(); err != nil {
			return err
		}
		l.closed = l.closed[:n:n]
	}
	if place.Position == 0 && !named {
		return nil
	}
	if l.open == nil {
		if n := len(l.closed); n == 0 || l.closed[n-1].Summary().End == place.Offset {
			return nil // a whole segment stays
		}
		if err := l.reopen(); err != nil {
			return err
		}
	}
	return l.open.CutAt(place, last)
}

// clipFaults forgets what is not part of the log any more.
func (l *Log) clipFaults(end partition.Offset) {
	var kept []segment.Range
	for _, r := range l.faults {
		if r.From >= end {
			break
		}
		r.To = min(r.To, end)
		kept = append(kept, r)
	}
	l.faults = kept
}
