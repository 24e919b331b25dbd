package datadir

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// segmentCheck checks one log file.
type segmentCheck struct {
	*logCheck

	file  string
	base  partition.Offset
	next  *partition.Offset // base of the segment behind; nil = the last one
	x     *segment.Index    // of what was read
	hash  hash.Hash         // nil in a quick look
	hint  partition.Offset  // the highest that a header proves committed
	marks []landmark
}

// landmark is a batch boundary that something else knows.
type landmark struct {
	segment.Entry // AppendTime is not used
	chain         uint64
	by            string
	file          string // where the fault is told
}

// segment checks a log file and its index.
func (l *logCheck) segment(base partition.Offset, next *partition.Offset) {
	name := l.dir + "/" + segment.Name(base, segment.LogPart)
	file, err := l.fs.Open(name, 0)
	if err != nil {
		if l.vanished(err) {
			if next != nil {
				l.end = segment.Place{Offset: *next, Unchained: true}
			}
			l.out.note(l.fs.Name(name), "the broker dropped this segment meanwhile")
			return
		}
		l.out.foundAt(segment.Corrupt, l.fs.Name(name), l.id, base, 0, "the segment cannot be opened: %v", err)
		return
	}
	defer file.Close()
	c := segmentCheck{logCheck: l, file: name, base: base, next: next}
	c.run(file, c.loadIndex())
}

// loadIndex reads the index; nil if there is none that can be used.
func (c *segmentCheck) loadIndex() *segment.Index {
	x, err := segment.LoadIndex(c.fs, c.dir+"/"+segment.Name(c.base, segment.IndexPart))
	name := c.name(c.base, segment.IndexPart)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		c.out.found(segment.Suspect, name, "the index cannot be used, because of a power cut or of a bad disk; the next start makes it again: %v", err)
		return nil
	case x.Base != c.base:
		c.out.found(segment.Corrupt, name, "the index is of segment %d", x.Base)
		return nil
	}
	return x
}

// run reads the file, index being nil where there is none.
func (c *segmentCheck) run(file vfs.File, index *segment.Index) {
	size, err := file.Size()
	if err != nil {
		c.out.foundAt(segment.Corrupt, c.fs.Name(c.file), c.id, c.base, 0, "the size of the file cannot be told: %v", err)
		return
	}
	c.out.Segments++
	c.findTag(file)
	if index != nil && index.Tag != c.tag {
		c.out.found(segment.Corrupt, c.name(c.base, segment.IndexPart), "the index is of partition tag %#x, the log of %#x", index.Tag, c.tag)
		index = nil
	}
	c.expect(index)
	ev := c.evidence(index)
	ev.Recycled = pool.IsRecycled(size)
	if c.opts.Quick {
		ev.CheckFrom = size
	} else {
		c.hash = sha256.New()
	}
	start := c.end
	c.x = &segment.Index{Summary: segment.Summary{Base: c.base, End: c.base, Tag: c.tag, Chain: start.Chain}}
	var s segment.Scanner
	s.Reset(file, size, c.base, c.tag, start, ev.CheckFrom)
	for s.Next() && c.ctx.Err() == nil {
		c.x.Add(s.Header(), s.Place().Chain)
		c.visit(&s)
		start = s.Place()
	}
	if c.ctx.Err() != nil {
		return
	}
	c.end = start
	done := summary{Summary: c.x.Summary}
	if s.Err() != nil || start.Offset < ev.Synced || start.Offset < ev.Committed {
		ev.Committed = max(ev.Committed, c.hint)
		a := segment.Assess(file, size, c.x, start.Unchained, ev)
		done.damaged = len(a.Faults) > 0
		c.report(a, size)
		c.behind(file, a, ev.CheckFrom)
		c.end = a.End
		done.Summary = a.Index.Summary
	}
	if index != nil && !done.damaged {
		c.compareIndex(index)
	}
	c.out.Bytes += c.x.Size
	if c.hash != nil {
		done.sum = [32]byte(c.hash.Sum(nil))
	}
	c.read[c.base] = done
	if c.next != nil && c.end.Offset > *c.next {
		c.out.foundAt(segment.Corrupt, c.fs.Name(c.file), c.id, *c.next, c.end.Position,
			"the segment ends at offset %d, but the next one begins at %d", c.end.Offset, *c.next)
		c.end = segment.Place{Offset: *c.next, Unchained: true}
	}
}

// findTag takes the tag from the first batch where nothing else says it.
func (c *segmentCheck) findTag(file vfs.File) {
	if c.tagged {
		return
	}
	head := make([]byte, batch.HeaderBytes)
	n, _ := file.ReadAt(head, 0) // what is missing is found later
	if h, err := batch.ParseHeader(head[:n]); err == nil {
		c.tag, c.tagged = h.PartitionTag, true
	}
}

// expect notes which places others know.
func (c *segmentCheck) expect(index *segment.Index) {
	if index != nil && index.End > c.base {
		c.marks = append(c.marks, landmark{
			segment.Entry{Offset: index.End, Position: index.Size}, index.Chain, "its index", c.name(c.base, segment.IndexPart),
		})
	}
	if m := c.known.Mark; c.journalled && !c.opts.Active && m.Base == c.base && m.Offset > c.base {
		c.marks = append(c.marks, landmark{segment.Entry{Offset: m.Offset, Position: m.Position}, m.Chain, "the journal's mark", c.fs.Name(c.file)})
	}
}

// evidence is what recovery would know about the segment.
func (c *segmentCheck) evidence(index *segment.Index) segment.Evidence {
	if c.next != nil {
		return segment.Evidence{Synced: *c.next}
	}
	ev := segment.Evidence{Synced: max(c.base, c.sealedEnd)}
	if index != nil {
		ev.Synced = max(ev.Synced, index.End)
	}
	if c.journalled {
		ev.Synced, ev.Committed = max(ev.Synced, c.known.Mark.Offset), c.known.HW
		for _, bad := range c.known.Faults {
			if bad.Base == c.base {
				ev.Synced = max(ev.Synced, bad.To)
			}
		}
	}
	return ev
}

// visit takes in a valid batch.
func (c *segmentCheck) visit(s *segment.Scanner) {
	h := s.Header()
	c.out.Batches++
	c.out.Records += int64(h.RecordCount)
	c.hint = max(c.hint, min(partition.Offset(h.CommitHint), partition.Offset(h.BaseOffset)))
	for _, m := range c.marks {
		place := s.Place()
		at := partition.Offset(h.BaseOffset)
		wrong := place.Offset == m.Offset && (place.Position != m.Position || place.Chain != m.chain) || at < m.Offset && m.Offset < place.Offset
		if wrong {
			c.out.foundAt(segment.Corrupt, m.file, c.id, m.Offset, m.Position,
				"%s says that a batch begins at offset %d, position %d, chain %#x; the log has offset %d, position %d, chain %#x", m.by,
				m.Offset, m.Position, m.chain, place.Offset, place.Position, place.Chain)
		}
	}
	if c.hash == nil {
		return
	}
	_, _ = c.hash.Write(s.Message()) // never fails
	if h.IsControl() {
		c.control(s)
	}
}

// control keeps the Seals.
func (c *segmentCheck) control(s *segment.Scanner) {
	control, err := batch.ReadControl(s.Message())
	if err == nil {
		err = c.takeSeal(control)
	}
	if err != nil {
		c.out.foundAt(segment.Corrupt, c.fs.Name(c.file), c.id, partition.Offset(s.Header().BaseOffset), s.Position(),
			"the control batch at offset %d cannot be read: %v", s.Header().BaseOffset, err)
	}
}

func (c *segmentCheck) takeSeal(control batchcapnp.Control) (err error) {
	var seal sealed.Seal
	switch control.Which() {
	case batchcapnp.Control_Which_seal:
		seal, err = sealed.ReadSeal(control)
	case batchcapnp.Control_Which_compact:
		seal, err = sealed.ReadCompact(control)
	default:
		return nil
	}
	if err == nil {
		c.learn(seal)
	}
	return err //nolint:wrapcheck // the caller says of what.
}

// behind visits what lies behind damage.
func (c *segmentCheck) behind(file vfs.File, a *segment.Assessment, checkFrom int64) {
	for _, bad := range a.Faults {
		var s segment.Scanner
		s.Reset(file, a.Index.Size, c.base, c.tag, segment.Place{Offset: bad.To, Position: bad.Limit, Unchained: true}, checkFrom)
		for s.Next() && c.ctx.Err() == nil {
			c.x.Size += int64(s.Header().Size)
			c.visit(&s)
		}
	}
}

// report tells what Assess made of the bad places.
func (c *segmentCheck) report(a *segment.Assessment, size int64) {
	name := c.fs.Name(c.file)
	for _, bad := range a.Faults {
		why := "the bytes are missing"
		if a.Err != nil && bad.Limit > bad.Position {
			why = a.Err.Error()
		}
		c.out.foundAt(segment.Corrupt, name, c.id, bad.From, bad.Position,
			"offsets %d to %d (bytes %d to %d) cannot be read, and they were durable: %s", bad.From, bad.To, bad.Position, bad.Limit, why)
	}
	cut := a.Cut.Limit > a.Cut.Position
	var class segment.Class
	var text string
	switch {
	case cut && a.Suspect:
		class = segment.Suspect
		text = fmt.Sprintf("the log ends at offset %d; of the %d bytes behind it nothing proves whether they were acknowledged, and they stay until "+
			"the log goes on without them: %v", a.End.Offset, size-a.Cut.Position, a.Err)
	case cut:
		class = segment.Torn
		text = fmt.Sprintf("the log ends at offset %d; the %d bytes behind it were never acknowledged here, and the next start cuts them: %v",
			a.End.Offset, size-a.Cut.Position, a.Err)
	case a.Class == segment.Suspect:
		class = segment.Suspect
		text = fmt.Sprintf("the log ends at offset %d, below the high watermark %d that was known here: the rest may never have been on this disk",
			a.End.Offset, c.known.HW)
	default:
		return
	}
	if c.opts.Active && c.next == nil {
		c.out.note(name, "offset %d, position %d: %s; the broker is writing there", a.End.Offset, a.End.Position, text)
		return
	}
	c.out.foundAt(class, name, c.id, a.End.Offset, a.End.Position, "%s", text)
}

// compareIndex compares the index file with the one made from the frames. It may cover less: it was written when the log was last closed.
func (c *segmentCheck) compareIndex(index *segment.Index) {
	name := c.name(c.base, segment.IndexPart)
	if n := len(index.Entries); n > len(c.x.Entries) || !slices.Equal(index.Entries, c.x.Entries[:n]) {
		at := 0
		for at < min(n, len(c.x.Entries)) && index.Entries[at] == c.x.Entries[at] {
			at++
		}
		e := index.Entries[min(at, n-1)]
		c.out.foundAt(segment.Corrupt, name, c.id, e.Offset, e.Position,
			"entry %d of the index says that a batch begins at offset %d, position %d; the log does not say so", at, e.Offset, e.Position)
		return
	}
	if index.End == c.x.End && index.Summary != c.x.Summary {
		c.out.found(segment.Corrupt, name, "the index sums the segment up as %+v, the log as %+v", index.Summary, c.x.Summary)
	}
}
