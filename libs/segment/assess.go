package segment

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// Evidence is what is known about a segment from outside of its bytes.
type Evidence struct {
	// Synced is the offset below which everything was durable in this file: by a Mark, an index, or the next segment's existence.
	Synced partition.Offset
	// Committed is a high watermark that was known here; what is below was durable on a majority, but perhaps not in this file.
	Committed partition.Offset
	// CheckFrom is the position from which bodies are checked too; everything below is left to a scrubber.
	CheckFrom int64
	// Recycled says that the file may be longer than what was written and end in bytes of its earlier life: its size proves nothing.
	Recycled bool
}

// Assessment is what the bytes of a segment are worth.
type Assessment struct {
	Class Class
	// Index covers what is kept. With faults inside, End and Size are those of the kept end.
	Index *Index
	// End is where the next batch belongs. Unchained: it cannot be appended to before the end is repaired.
	End Place
	// Faults are the corrupt ranges, in order, all below End.
	Faults []Range
	// Cut is what does not belong to the segment any more: bytes from End to the end of the file that are not clean. To is above From
	// where valid batches lie among them.
	Cut Range
	// Suspect says that Cut may hold what was acknowledged: it is left in place until the log goes on without it.
	Suspect bool
	// Unreadable says that some of Cut could not be read: what is there is not known, so nothing may take its place.
	Unreadable bool
	// Batches is how many were read.
	Batches int64
	// Err says what stood at the first bad place; nil if there was none.
	Err error
}

// Assess reads a segment from what prefix covers on (an index of no batch: from the beginning, whose Chain is then that of the first batch;
// unchained: that is not known) and decides what every bad place is. size is the file's. The rules are docs/formats/segment.md's.
func Assess(r io.ReaderAt, size int64, prefix *Index, unchained bool, ev Evidence) *Assessment {
	a := assessor{r: r, size: size, ev: ev, out: Assessment{Index: &Index{Summary: prefix.Summary}}}
	a.out.Index.Entries = append(a.out.Index.Entries, prefix.Entries...)
	a.proven = max(ev.Synced, ev.Committed)
	a.out.End = Place{Offset: prefix.End, Position: prefix.Size, Chain: prefix.Chain, Unchained: unchained}
	for a.step() {
		continue
	}
	x := a.out.Index
	x.End, x.Size, x.Chain = a.out.End.Offset, a.out.End.Position, a.out.End.Chain
	return &a.out
}

type assessor struct {
	r       io.ReaderAt
	size    int64
	ev      Evidence
	out     Assessment
	scanner Scanner
	proven  partition.Offset // D: below it, what is bad is corrupt
}

// step takes in batches up to the next bad place and decides about that. It returns true if there is more to read behind it.
func (a *assessor) step() bool {
	x, s := a.out.Index, &a.scanner
	s.Reset(a.r, a.size, x.Base, x.Tag, a.out.End, a.ev.CheckFrom)
	for s.Next() {
		a.take()
	}
	if s.Err() == nil {
		a.missing()
		return false
	}
	if a.out.Err == nil {
		a.out.Err = s.Err()
	}
	found := a.search()
	a.proven = max(a.proven, found.hint)
	if a.out.End.Offset >= a.proven {
		a.cut(found)
		return false
	}
	return a.fault(found)
}

func (a *assessor) take() {
	x, s := a.out.Index, &a.scanner
	if x.Size != s.Position() {
		// Behind a fault: lookups must not have to walk over it.
		x.Size = s.Position()
		if len(x.Entries) > 0 {
			x.addEntry(s.Header())
		}
	}
	x.Add(s.Header(), s.Place().Chain)
	a.out.End = s.Place()
	a.out.Batches++
	a.proven = max(a.proven, hintOf(s.Header()))
}

// hintOf gives the offset that a batch proves committed; never above itself.
func hintOf(h *batch.Header) partition.Offset {
	return min(partition.Offset(h.CommitHint), partition.Offset(h.BaseOffset))
}

// missing decides about a file that ends cleanly, but too early.
func (a *assessor) missing() {
	end := &a.out.End
	switch {
	case end.Offset < a.ev.Synced:
		a.addFault(Range{From: end.Offset, To: a.ev.Synced, Base: a.out.Index.Base, Position: end.Position, Limit: end.Position})
		end.Offset, end.Unchained = a.ev.Synced, true
	case end.Offset < a.ev.Committed:
		// A high watermark may be durable before the bytes it speaks of: perhaps they were never here.
		a.worsen(Suspect)
	}
}

// cut ends the segment at a bad place that nothing proves.
func (a *assessor) cut(found findings) {
	end := a.out.End
	if a.ev.Recycled && found.end == 0 && !found.unreadable && errors.Is(a.scanner.Err(), ErrFrame) {
		if len(a.out.Faults) == 0 {
			a.out.Err = nil
		}
		return // only bytes of an earlier life
	}
	a.out.Cut = Range{From: end.Offset, To: max(end.Offset, found.end), Base: a.out.Index.Base, Position: end.Position, Limit: a.size}
	limit := a.provenAt() + Window
	beyond := found.limit > limit || found.unreadable || !a.ev.Recycled && a.size > limit
	if beyond || !errors.Is(a.scanner.Err(), ErrFrame) {
		a.out.Suspect, a.out.Unreadable = true, found.unreadable || !errors.Is(a.scanner.Err(), ErrFrame)
		a.worsen(Suspect)
	} else {
		a.worsen(Torn)
	}
}

// fault notes a bad place that is proven to have been good, and goes on behind it where that can be found.
func (a *assessor) fault(found findings) bool {
	x, end := a.out.Index, &a.out.End
	bad := Range{From: end.Offset, Base: x.Base, Position: end.Position}
	next := found.next
	if bodyErr := (*bodyError)(nil); errors.As(a.scanner.Err(), &bodyErr) {
		a.scanner.advance() // the header is good and says where the next batch belongs
		next = a.scanner.Place()
	}
	if next.Position == 0 || next.Offset > a.proven {
		// Nothing up to D can be read; whatever lies beyond it is not proven.
		bad.To, bad.Limit = a.proven, a.size
		a.addFault(bad)
		end.Offset, end.Position, end.Unchained = a.proven, a.size, true
		return false
	}
	bad.To, bad.Limit = next.Offset, next.Position
	a.addFault(bad)
	*end = next
	return true
}

// provenAt gives the position of the last batch boundary that is not above D.
func (a *assessor) provenAt() int64 {
	x := a.out.Index
	if a.proven >= x.End {
		return x.Size
	}
	e := x.At(a.proven)
	var s Scanner
	s.Reset(a.r, a.size, x.Base, x.Tag, Place{Offset: e.Offset, Position: e.Position, Unchained: true}, a.size)
	at := e.Position
	for s.Next() && s.Place().Offset <= a.proven {
		at = s.Place().Position
	}
	return at
}

func (a *assessor) addFault(r Range) {
	a.worsen(Corrupt)
	if n := len(a.out.Faults); n > 0 && a.out.Faults[n-1].To == r.From && a.out.Faults[n-1].Limit == r.Position {
		a.out.Faults[n-1].To, a.out.Faults[n-1].Limit = r.To, r.Limit
		return
	}
	a.out.Faults = append(a.out.Faults, r)
}

func (a *assessor) worsen(c Class) { a.out.Class = max(a.out.Class, c) }

// findings are what lies behind a bad place.
type findings struct {
	hint       partition.Offset // the highest commitHint of a header of this segment
	end        partition.Offset // the highest offset that such a header ends at
	limit      int64            // where the last such batch ends
	next       Place            // the first whole batch of this segment behind the bad place; Position 0 = none
	unreadable bool             // some of it could not be read
}

// search looks at every multiple of 8 behind the current place for headers of this segment. A bad body is skipped as a whole: what a
// producer put into a record proves nothing.
func (a *assessor) search() findings {
	var f findings
	from := a.out.End.Position + 8
	if bodyErr := (*bodyError)(nil); errors.As(a.scanner.Err(), &bodyErr) {
		from = a.scanner.position + int64(a.scanner.header.Size)
	}
	finder := finder{r: a.r, size: a.size}
	for at := from; ; {
		position, h, ok := finder.next(at)
		if !ok {
			f.unreadable = finder.unreadable
			return f
		}
		at = position + 8
		if h.SegmentBase != uint64(a.out.Index.Base) || h.PartitionTag != a.out.Index.Tag || h.BaseOffset < uint64(a.out.End.Offset) {
			continue
		}
		f.hint = max(f.hint, hintOf(&h))
		f.end = max(f.end, partition.Offset(h.NextOffset()))
		f.limit = max(f.limit, position+int64(h.Size))
		if whole := position+int64(h.Size) <= a.size && finder.whole(position, &h); whole {
			if f.next.Position == 0 && h.BaseOffset > uint64(a.out.End.Offset) {
				f.next = Place{Offset: partition.Offset(h.BaseOffset), Position: position, Chain: h.Chain}
			}
			at = position + int64(h.Size)
		}
	}
}

// finder looks for batches at any multiple of 8.
type finder struct {
	r          io.ReaderAt
	size       int64
	buffer     []byte
	bufferAt   int64
	unreadable bool
}

const (
	// findBlock is the unit in which a finder steps over what cannot be read.
	findBlock = 4096
	// rootPointer is the second word of every batch: a struct right behind it, of 20 data words and 5 pointers.
	rootPointer = 20<<32 | 5<<48
)

// next gives the first valid header at or behind a position.
func (f *finder) next(at int64) (int64, batch.Header, bool) {
	for at = (at + 7) &^ 7; at+batch.HeaderBytes <= f.size; at += 8 {
		p := f.window(at)
		if p == nil {
			at = (at/findBlock+1)*findBlock - 8
			continue
		}
		if binary.LittleEndian.Uint64(p[8:]) != rootPointer {
			continue // most places, so before anything that makes an error
		}
		if h, err := batch.ParseHeader(p); err == nil {
			return at, h, true
		}
	}
	return 0, batch.Header{}, false
}

// window gives a header's worth of bytes, nil where they cannot be read.
func (f *finder) window(at int64) []byte {
	if from := at - f.bufferAt; from < 0 || from+batch.HeaderBytes > int64(len(f.buffer)) {
		if cap(f.buffer) == 0 {
			f.buffer = make([]byte, min(scanBytes, f.size))
		}
		full := f.buffer[:cap(f.buffer)]
		n, err := f.r.ReadAt(full, at)
		if n < batch.HeaderBytes && err != nil && !errors.Is(err, io.EOF) {
			f.unreadable = true
			n = 0
		}
		f.buffer, f.bufferAt = full[:n], at
		if n < batch.HeaderBytes {
			return nil
		}
	}
	from := at - f.bufferAt
	return f.buffer[from : from+batch.HeaderBytes]
}

// whole tells whether the body of a batch is right too.
func (f *finder) whole(at int64, h *batch.Header) bool {
	msg := make([]byte, h.Size)
	n, err := f.r.ReadAt(msg, at)
	if n < len(msg) {
		f.unreadable = f.unreadable || !errors.Is(err, io.EOF)
		return false
	}
	return batch.CheckBody(msg) == nil
}
