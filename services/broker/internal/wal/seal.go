package wal

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
)

// source gives a segment by its base.
func (v *view) source(base partition.Offset) (*source, error) {
	for i := range v.closed {
		if v.closed[i].Base == base {
			return &v.closed[i], nil
		}
	}
	if v.open != nil && v.open.Base == base {
		return v.open, nil
	}
	return nil, fault.Errorf(fault.NotFound, "find segment %d: the log has no such segment", base)
}

// Digest gives size and SHA-256 of the log part of a segment that ended; fault.Conflict if it has not.
func (l *Log) Digest(base partition.Offset) (size int64, sum [32]byte, err error) {
	s, err := l.view.Load().source(base)
	if err != nil {
		return 0, sum, err
	}
	if bad, ok := l.faultOf(base); ok && s.sum == sum {
		return 0, sum, l.damaged("digest", bad.From, bad)
	}
	switch s.state {
	case StateOpen:
		return 0, sum, fault.Errorf(fault.Conflict, "digest segment %d: it is open", base)
	case StateSealed:
		if s.sum != sum {
			return s.Size, s.sum, nil
		}
	case StateClosed:
	}
	sum, err = s.Digest()
	return s.Size, sum, err
}

// MarkSealed makes a closed segment final: its Seal with this digest is committed, and state is what the partition is at the segment's end,
// opaque here. Segments are sealed in order. The digest and the state are durable when it returns; for a sealed segment it does nothing.
func (l *Log) MarkSealed(base partition.Offset, sum [32]byte, state []byte) error {
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if err := l.usable("seal"); err != nil {
		return err
	}
	s, err := l.view.Load().source(base)
	switch {
	case err != nil:
		return err
	case s.state == StateSealed:
		return nil
	case s.state == StateOpen:
		return fault.Errorf(fault.Conflict, "seal segment %d: it is open", base)
	case l.closed[0].Summary().Base != base:
		return fault.Errorf(fault.Conflict, "seal segment %d: segment %d comes first", base, l.closed[0].Summary().Base)
	}
	sealed, err := l.closed[0].Seal(sum, state)
	if err != nil {
		return l.fail(err)
	}
	l.sealed, l.closed = append(l.sealed, sealed), l.closed[1:]
	l.retail(segment.Place{Offset: l.tail.End, Chain: l.tail.Chain, Unchained: l.broken}) // it may have been what the next batch goes on in
	l.relist()
	l.publish()
	l.pruneSnapshots()
	return nil
}

// ReadSealed gives up to n bytes of the log part of a sealed segment from a position on; fewer only at its end.
func (l *Log) ReadSealed(base partition.Offset, position int64, n int) (*Chunk, error) {
	s, err := l.view.Load().source(base)
	if err != nil {
		return nil, err
	}
	if s.state != StateSealed {
		return nil, fault.Errorf(fault.Conflict, "read segment %d: it is not sealed", base)
	}
	if position < 0 || position > s.Size || n < 0 {
		return nil, fault.Errorf(fault.Invalid, "read segment %d at position %d: it has %d bytes", base, position, s.Size)
	}
	c := &Chunk{FirstOffset: s.Base, NextOffset: s.End, position: position, size: min(int64(n), s.Size-position)}
	return c.pin(s.File())
}

// SealedParts gives what belongs into the footer of a sealed segment beside its bytes: the encoded index, and the state at its end.
func (l *Log) SealedParts(base partition.Offset) (index, state []byte, err error) {
	s, err := l.view.Load().source(base)
	if err != nil {
		return nil, nil, err
	}
	if s.state != StateSealed {
		return nil, nil, fault.Errorf(fault.Conflict, "read parts of segment %d: it is not sealed", base)
	}
	x, err := s.Index()
	if err != nil {
		return nil, nil, err
	}
	snapshot, err := segment.LoadSnapshot(l.fs, l.path(base, segment.SnapshotPart))
	if err == nil && snapshot.End != s.End {
		err = fmt.Errorf("%w: it is of segment [%d, %d)", segment.ErrSnapshot, snapshot.Base, snapshot.End)
	}
	if err != nil {
		return nil, nil, fault.Errorf(fault.Corrupt, "read snapshot of segment %d: %w", base, err)
	}
	return x.AppendTo(nil), snapshot.State, nil
}

// DropBefore removes the sealed segments that end at or below an offset, oldest first. The newest snapshots stay.
func (l *Log) DropBefore(o partition.Offset) error {
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if err := l.usable("drop"); err != nil {
		return err
	}
	for len(l.sealed) > 0 && l.sealed[0].Summary().End <= o {
		if len(l.sealed) == 1 && len(l.closed) == 0 && (l.open == nil || l.mark.Load().Offset <= l.open.Summary().Base) {
			break // only this file says, after a crash, where the log is and what chain it has
		}
		oldest := l.sealed[0]
		l.sealed = l.sealed[1:]
		l.faults = slices.DeleteFunc(slices.Clone(l.faults), func(bad segment.Range) bool { return bad.Base == oldest.Summary().Base })
		l.relist()
		l.publish() // nobody looks for it any more
		if err := oldest.Remove(); err != nil {
			return fault.Wrap("drop", l.fail(err))
		}
	}
	l.pruneSnapshots()
	return nil
}

// pruneSnapshots removes the snapshots of segments that are gone, but for the newest ones, which recovery starts from, and the one as of the
// log's start, for a replica that has nothing from there on (StartSnapshot). What cannot be removed stays until the next time.
func (l *Log) pruneSnapshots() {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return
	}
	var bases []partition.Offset
	for _, name := range names {
		if base, part, ok := segment.ParseName(name); ok && part == segment.SnapshotPart {
			bases = append(bases, base)
		}
	}
	start := l.start()
	for i, base := range bases {
		if base >= start || len(bases)-i <= keptSnapshots || i+1 == len(bases) || bases[i+1] >= start {
			return
		}
		if err := l.fs.Remove(l.path(base, segment.SnapshotPart)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.log.Warn("cannot remove an old snapshot", "segment", uint64(base), "err", err)
			return
		}
	}
}

// StartSnapshot gives the snapshot file of the segment that ends at Start, and its state. Errors: NotFound where there is none: nothing came
// before, or it was not kept.
func (l *Log) StartSnapshot() (at partition.Offset, file, state []byte, err error) {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return 0, nil, nil, diskError("list", err)
	}
	start := l.Start()
	var newest partition.Offset
	found := false
	for _, name := range names {
		if base, part, ok := segment.ParseName(name); ok && part == segment.SnapshotPart && base < start && (!found || base > newest) {
			newest, found = base, true
		}
	}
	if !found {
		return 0, nil, nil, fault.Errorf(fault.NotFound, "find snapshot at %d: there is none", start)
	}
	s, err := segment.LoadSnapshot(l.fs, l.path(newest, segment.SnapshotPart))
	if err == nil && s.End != start {
		return 0, nil, nil, fault.Errorf(fault.NotFound, "find snapshot at %d: the newest before is as of %d", start, s.End)
	}
	if err == nil {
		file, err = s.AppendTo(nil)
	}
	if err != nil {
		return 0, nil, nil, fault.Errorf(fault.Corrupt, "read snapshot at %d: %w", start, err)
	}
	return start, file, s.State, nil
}

// path names a part of a segment in the file system.
func (l *Log) path(base partition.Offset, part segment.Part) string {
	return l.dir + "/" + segment.Name(base, part)
}
