package wal

import (
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/services/broker/internal/replay"
)

// adoptLast takes in the last segment: the only one that may end in something that is not durable.
//
// What is proven to be durable here (by the index, which is written only behind a sync, and by the mark) is left alone. The rest, up to the
// end that Assess finds, is rewritten in place with the same bytes and synced: it may be in the page cache of an earlier life whose sync has
// failed, and then another sync would not write it. Only after that is a torn end cut.
func (r *recovery) adoptLast(base partition.Offset) error {
	l := r.l
	info, err := l.fs.Stat(l.path(base, segment.LogPart))
	if err != nil {
		return diskError("stat", err)
	}
	prefix, proven, ev := r.evidence(base, info.Size)
	a, err := r.assess(base, info.Size, prefix, ev)
	if err != nil {
		return err
	}
	if prefix != nil {
		r.remembered(prefix)
	}
	r.note(a)
	if a.Unreadable {
		// Not read is not absent (§1.11): it may have been acknowledged. Another attempt may read it, or another replica has it.
		return fault.Errorf(fault.Unavailable, "the end of the log from %d on cannot be read: %w", a.Cut.From, a.Err)
	}
	x := a.Index
	r.anchor(a)
	if err := r.checkMark(x); err != nil {
		return err
	}
	torn := a.Cut.Limit > a.Cut.Position && a.Cut.Limit > x.Size
	// Suspect bytes may have been acknowledged, and what lies behind damage, be it torn or an empty file, proves how far that goes: it
	// stays until the log goes on.
	damaged := len(r.out.Faults) > 0
	overhang := torn && (a.Suspect || damaged)
	if x.Size == 0 && !overhang && !damaged && !r.end.Unchained && len(l.closed)+len(l.sealed) > 0 {
		return r.removeEmpty(base)
	}
	cut := info.Size
	if torn && !overhang {
		cut = x.Size
	}
	if err := r.settle(base, proven, min(x.Size, info.Size), cut, info.Size); err != nil {
		return diskError("settle", err)
	}
	if x.End == base {
		r.changed = true // perhaps its name is not durable yet
	}
	if r.end.Offset <= r.sealed && x.Size > 0 {
		l.sealed = append(l.sealed, segment.AdoptSealed(l.files, l.dir, x, r.sumOf(base)))
		return nil
	}
	l.open, l.overhang = segment.Adopt(l.files, l.dir, x, cut), overhang
	return nil
}

// evidence gathers what is known about the last segment: the index that covers its beginning, the position below which everything is durable
// here, and what Assess needs.
func (r *recovery) evidence(base partition.Offset, size int64) (prefix *segment.Index, proven int64, ev segment.Evidence) {
	l := r.l
	ev = segment.Evidence{Synced: max(base, r.sealed), Committed: r.ev.HW, Recycled: pool.IsRecycled(size)}
	if x, err := segment.LoadIndex(l.fs, l.path(base, segment.IndexPart)); err == nil && x.Base == base && x.Tag == l.tag {
		ev.Synced = max(ev.Synced, x.End)
		if x.Size <= size {
			prefix, proven = x, x.Size
		}
	}
	ev.Synced = max(ev.Synced, r.ev.Mark.Offset)
	for _, bad := range r.ev.Faults {
		if bad.Base == base {
			ev.Synced = max(ev.Synced, bad.To)
		}
	}
	if r.ev.Mark.Base == base && r.ev.Mark.Offset > base {
		proven = max(proven, min(r.ev.Mark.Position, size))
	}
	ev.CheckFrom = proven
	if mutant.Is(mutant.CutAtCorruption) {
		ev = segment.Evidence{Synced: base}
	}
	return prefix, proven, ev
}

// checkMark compares the mark with the batch boundary it names. A log that is readable there and differs is not the log that was marked.
func (r *recovery) checkMark(x *segment.Index) error {
	m := r.ev.Mark
	if m.Base != x.Base || m.Offset <= x.Base || m.Offset > x.End {
		return nil
	}
	for _, bad := range r.out.Faults {
		if bad.Base == x.Base && m.Offset >= bad.From {
			return nil // behind damage nothing is known for sure
		}
	}
	if m.Offset == x.End && m.Position == x.Size && m.Chain == x.Chain {
		return nil // and nothing need be read, damaged or not
	}
	o := segment.Adopt(r.l.files, r.l.dir, x, 0)
	defer o.Abandon()
	place, _, err := o.Reader().EndAt(m.Offset)
	if err != nil {
		if fault.Is(err, fault.Invalid) {
			err = fault.Errorf(fault.Corrupt, "%w", err)
		} else if fault.Is(err, fault.Corrupt) {
			return nil // the way there is damaged: that is for whoever reads it
		}
		return fault.Wrap(op("find the mark", m.Offset), err)
	}
	if place.Position != m.Position || place.Chain != m.Chain {
		return fault.Errorf(fault.Corrupt, "the log contradicts its mark at offset %d: position %d and chain %#x, marked were %d and %#x",
			m.Offset, place.Position, place.Chain, m.Position, m.Chain)
	}
	return nil
}

// removeEmpty removes a last file without a batch: the next batch says whether it starts a segment here or goes on in the one before, which is
// durable up to here.
func (r *recovery) removeEmpty(base partition.Offset) error {
	l := r.l
	empty := segment.Adopt(l.files, l.dir, &segment.Index{Summary: segment.Summary{Base: base, End: base, Tag: l.tag}}, 0)
	if err := empty.Remove(); err != nil {
		return err
	}
	r.end.Position = 0
	return nil
}

// sumOf gives the digest that a segment was sealed with; zero if it is not known.
func (r *recovery) sumOf(base partition.Offset) [32]byte {
	s, err := segment.LoadSnapshotHeader(r.l.fs, r.l.path(base, segment.SnapshotPart))
	if err != nil || s.Base != base {
		return [32]byte{}
	}
	return s.SHA256
}

// settle makes [from, to) of the last file durable by writing it again, and then makes the file end at cut.
func (r *recovery) settle(base partition.Offset, from, to, cut, size int64) error {
	if from >= to && cut == size {
		return nil
	}
	file := r.l.files.File(r.l.path(base, segment.LogPart))
	handle, err := file.Pin()
	if err != nil {
		return err
	}
	defer file.Forget()
	defer file.Unpin()
	if from < to && !mutant.Is(mutant.TrustPageCache) {
		if err := replay.Rewrite(handle, from, to); err != nil {
			return err
		}
		if err := handle.Datasync(); err != nil {
			return err
		}
	}
	if cut < size {
		if err := handle.Truncate(cut); err != nil {
			return fmt.Errorf("cut: %w", err)
		}
		if err := handle.Datasync(); err != nil {
			return err
		}
	}
	r.changed = true // the file's name may be as young as its bytes
	return nil
}
