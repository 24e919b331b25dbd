package wal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
)

// damaged is the error of whoever wants a damaged range: it names the file, and in Offset the offset behind it.
func (l *Log) damaged(what string, at partition.Offset, bad segment.Range) error {
	return &fault.Error{Kind: fault.Corrupt, Op: op(what, at), Offset: uint64(bad.To), Err: fmt.Errorf("offsets [%d, %d) are damaged, bytes [%d, %d) of %s",
		bad.From, bad.To, bad.Position, bad.Limit, l.fs.Name(l.path(bad.Base, segment.LogPart)))}
}

// faultOf gives the first damage of a segment.
func (l *Log) faultOf(base partition.Offset) (segment.Range, bool) {
	faults := l.view.Load().faults
	if i := slices.IndexFunc(faults, func(bad segment.Range) bool { return bad.Base == base }); i >= 0 {
		return faults[i], true
	}
	return segment.Range{}, false
}

// faultBehind gives where the first damage of a segment at or behind an offset begins; cause where there is none.
func (v *view) faultBehind(s *source, o partition.Offset, cause error) (partition.Offset, error) {
	for _, bad := range v.faults {
		if bad.Base == s.Base && bad.To > o {
			return bad.From, nil
		}
	}
	return o, cause
}

// Examine reads the segment that holds an offset as a whole, bodies too: what is damaged then are its faults, and what reads well again is none any
// more. It tells whether that is news; then the caller makes its list durable.
func (l *Log) Examine(at partition.Offset) (news bool, err error) {
	v := l.view.Load()
	if at < v.start || at >= v.tail.End {
		return false, nil
	}
	s := v.find(at)
	handle, err := s.File().Pin()
	if err != nil {
		return false, diskError(op("examine", at), err)
	}
	defer s.File().Unpin()
	empty := &segment.Index{Summary: segment.Summary{Base: s.Base, End: s.Base, Tag: s.Tag}}
	a := segment.Assess(handle, s.Size, empty, true, segment.Evidence{Synced: s.End})
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if l.generation != v.generation || l.installed != v.installed || l.start() > s.Base {
		return false, nil // it is another file now, or none
	}
	faults := slices.DeleteFunc(slices.Clone(l.faults), func(bad segment.Range) bool { return bad.Base == s.Base })
	i, _ := slices.BinarySearchFunc(faults, s.Base, func(bad segment.Range, o partition.Offset) int { return cmp.Compare(bad.From, o) })
	if faults = slices.Insert(faults, i, a.Faults...); slices.Equal(faults, l.faults) {
		return false, nil
	}
	l.log.Warn("what of a segment can be read has changed", "segment", uint64(s.Base), "ranges", len(a.Faults), "file", s.File().Name(), "err", a.Err)
	l.faults = faults
	l.reindex(a.Index)
	l.publish()
	return true, nil
}

// reindex has lookups in a damaged segment begin behind its damage. x was made by reading the segment up to x.Size. Called with mutate held.
func (l *Log) reindex(x *segment.Index) {
	if l.open != nil && l.open.Summary().Base == x.Base {
		now, err := l.open.Reader().Index()
		if err != nil {
			return // of an open segment it is in memory
		}
		entries := x.Entries
		for _, e := range now.Entries {
			if e.Position >= x.Size {
				entries = append(entries, e)
			}
		}
		l.open.Reindex(entries)
		return
	}
	for i, s := range l.sealed {
		if s.Summary().Base == x.Base {
			l.sealed = slices.Clone(l.sealed)
			l.sealed[i] = segment.AdoptSealed(l.files, l.dir, l.summarized(s.Summary(), x), s.SHA256())
		}
	}
	for i, c := range l.closed {
		if c.Summary().Base == x.Base {
			l.closed = slices.Clone(l.closed)
			l.closed[i] = segment.AdoptClosed(l.files, l.dir, l.summarized(c.Summary(), x))
		}
	}
	l.relist()
}

// summarized gives an index of a damaged segment, which says of the whole what was known before, and writes it: damage or not, all that it covers was
// durable, and the next life learns of the damage from the caller's list.
func (l *Log) summarized(s segment.Summary, x *segment.Index) *segment.Index {
	x = &segment.Index{Summary: s, Entries: x.Entries}
	if err := segment.WriteIndex(l.fs, l.dir, x); err != nil {
		l.log.Warn("cannot write an index, it will be made again", "segment", uint64(x.Base), "err", err)
	}
	return x
}

// Visitor sees a log as far as it can be read.
type Visitor struct {
	// Batch is a batch in order; msg is valid during the call only.
	Batch func(h batch.Header, msg []byte) error
	// Header is a batch of records whose body is, or may be, bad. next is the chain word of its successor.
	Header func(h batch.Header, next uint64) error
	// Hole is a range of which not enough can be read: not every header, or the body of a control batch. chain is the chain word of the batch behind it; unchained: it is not known, and nothing follows.
	Hole func(r segment.Range, chain uint64, unchained bool) error
}

// Survey visits all of the log from an offset where a batch begins up to the present End, over what is damaged. Damage that it finds is among the
// faults behind that.
func (l *Log) Survey(from partition.Offset, visit Visitor) error {
	if v := l.view.Load(); from < v.start || from > v.tail.End {
		return fault.Wrap(op("scan", from), v.covers(from, v.tail.End))
	}
	for {
		next, visited, err := l.survey(from, visit)
		if visited != nil || !fault.Is(err, fault.Corrupt) {
			return err
		}
		if news, examineErr := l.Examine(next); !news {
			return errors.Join(err, examineErr)
		}
		from = next
	}
}

// survey is Survey up to damage that is not known, which is fault.Corrupt, or an error of visit, in visited. next is behind what was visited.
func (l *Log) survey(from partition.Offset, visit Visitor) (next partition.Offset, visited, err error) {
	v := l.view.Load()
	all := v.all()
	for i := range all {
		s := &all[i]
		each := func(to partition.Offset) error {
			if from = max(from, s.Base); from >= to {
				return nil
			}
			err := s.Each(from, func(h batch.Header, msg []byte) error {
				from = partition.Offset(h.NextOffset())
				if visited = visit.Batch(h, msg); visited == nil && from >= to {
					return errEnough // what follows may be damaged
				}
				return visited
			})
			if errors.Is(err, errEnough) {
				return nil
			}
			return err
		}
		for _, bad := range v.faults {
			if bad.Base != s.Base || bad.To <= from {
				continue
			}
			if err := each(bad.From); err != nil {
				return from, visited, err
			}
			if visited, err = v.over(s, bad, visit); err != nil || visited != nil {
				return from, visited, cmp.Or(visited, err)
			}
			from = bad.To
		}
		if err := each(s.End); err != nil {
			return from, visited, err
		}
	}
	return from, nil, nil
}

// over visits what can be known of a damaged range: the headers, if they are all there, and of records only.
func (v *view) over(s *source, bad segment.Range, visit Visitor) (visited, err error) {
	x, err := s.Index()
	if err != nil {
		return nil, err
	}
	var headers []segment.Frame
	next, chained := bad.From, v.chainAt(bad.From)
	whole := func() bool {
		err := s.Walk(x.At(bad.From), func(f *segment.Scanner) bool {
			h := *f.Header()
			switch at := partition.Offset(h.BaseOffset); {
			case at < bad.From:
				return true
			case at >= bad.To || at != next || h.IsControl() || len(headers) == 0 && !chained.Unchained && chained.Chain != h.Chain:
				return false
			}
			headers = append(headers, segment.Frame{Header: h, Next: batch.NextChain(f.Message())})
			next = partition.Offset(h.NextOffset())
			return next < bad.To
		})
		return err == nil && next == bad.To
	}
	if behind := v.chainAt(bad.To); !whole() || !behind.Unchained && behind.Chain != headers[len(headers)-1].Next {
		return visit.Hole(bad, behind.Chain, behind.Unchained), nil
	}
	for i := range headers {
		if err := visit.Header(headers[i].Header, headers[i].Next); err != nil {
			return err, nil
		}
	}
	return nil, nil
}

// chainAt gives the chain word of the batch at an offset where one begins, or would: unchained where that cannot be read.
func (v *view) chainAt(o partition.Offset) segment.Place {
	if o == v.tail.End {
		return segment.Place{Offset: o, Chain: v.tail.Chain, Unchained: v.broken}
	}
	h, at, err := v.find(o).Header(o)
	if err != nil || partition.Offset(h.BaseOffset) != o {
		return segment.Place{Offset: o, Unchained: true}
	}
	return segment.Place{Offset: o, Position: at, Chain: h.Chain}
}

// remembered takes in the faults that the caller knew below the end of an index, where the bytes are still bad: with the index nothing is read.
func (r *recovery) remembered(x *segment.Index) {
	for _, bad := range r.ev.Faults {
		if bad.Base != x.Base || bad.From >= x.End {
			continue
		}
		bad.To = min(bad.To, x.End)
		if r.reads(x, bad) {
			r.l.log.Info("a damaged range can be read again", "segment", uint64(x.Base), "from", uint64(bad.From), "to", uint64(bad.To))
			continue
		}
		r.out.Class = max(r.out.Class, segment.Corrupt)
		r.out.Faults = append(r.out.Faults, bad)
	}
}

// reads tells whether all of a range is as it should be.
func (r *recovery) reads(x *segment.Index, bad segment.Range) bool {
	next := bad.From
	reader := segment.AdoptClosed(r.l.files, r.l.dir, x).Reader()
	err := reader.Each(bad.From, func(h batch.Header, _ []byte) error {
		next = partition.Offset(h.NextOffset())
		if next >= bad.To {
			return errEnough
		}
		return nil
	})
	return next >= bad.To && (err == nil || errors.Is(err, errEnough))
}

// anchor finds the end of a log whose end cannot be read where a mark tells it: what follows can be put there.
func (r *recovery) anchor(a *segment.Assessment) {
	m, x := r.ev.Mark, a.Index
	n := len(a.Faults)
	if !a.End.Unchained || n == 0 || m.Base != x.Base || m.Offset != a.End.Offset || m.Offset == x.Base {
		return
	}
	last := &r.out.Faults[len(r.out.Faults)-1]
	last.Limit = m.Position
	if a.End.Position > m.Position {
		r.out.Cut = segment.Range{From: m.Offset, To: m.Offset, Base: x.Base, Position: m.Position, Limit: a.End.Position}
		a.Cut = r.out.Cut
	}
	r.end = segment.Place{Offset: m.Offset, Position: m.Position, Chain: m.Chain}
	x.End, x.Size, x.Chain = m.Offset, m.Position, m.Chain
	x.Entries = append(x.Entries, segment.Entry{Offset: m.Offset, Position: m.Position, AppendTime: x.LastAppendTime})
}
