package wal

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
)

// ScanSegment visits the batches of a sealed segment from the one that holds from on, with bodies checked, until fn says that it is enough or the
// segment ends. It gives the offset behind the last one visited; the message is valid during the visit only.
func (l *Log) ScanSegment(base, from partition.Offset, fn func(h batch.Header, msg []byte) (more bool, err error)) (partition.Offset, error) {
	next := from
	s, err := l.sealedSource(base, "scan")
	if err != nil {
		return next, err
	}
	err = s.Each(from, func(h batch.Header, msg []byte) error {
		more, err := fn(h, msg)
		next = partition.Offset(h.NextOffset())
		if err == nil && !more {
			err = errEnough
		}
		return err
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return next, err
}

var errEnough = errors.New("enough")

// sealedSource gives a sealed segment that is not damaged.
func (l *Log) sealedSource(base partition.Offset, what string) (*source, error) {
	v := l.view.Load()
	s, err := v.source(base)
	if err != nil {
		return nil, err
	}
	if s.state != StateSealed {
		return nil, fault.Errorf(fault.Conflict, "%s segment %d: it is not sealed", what, base)
	}
	for _, bad := range v.faults {
		if bad.Base == base {
			return nil, fault.Errorf(fault.Corrupt, "%s segment %d: [%d, %d) is damaged", what, base, bad.From, bad.To)
		}
	}
	return s, nil
}

// Compacted begins the file that is to take a sealed segment's place. Nothing of the log changes by it.
func (l *Log) Compacted(base partition.Offset) (*segment.Compacted, error) {
	if _, err := l.sealedSource(base, "compact"); err != nil {
		return nil, err
	}
	return segment.CreateCompacted(l.fs, l.dir, base)
}

// CheckCompacted reads the file that is to take a sealed segment's place from its first byte to its last, and gives what InstallCompacted needs.
// fault.NotFound: no file here has this size and digest.
func (l *Log) CheckCompacted(base partition.Offset, size int64, sum [32]byte) (*segment.Index, error) {
	s, err := l.sealedSource(base, "check")
	if err != nil {
		return nil, err
	}
	return s.CheckCompacted(size, sum)
}

// InstallCompacted puts the file that CheckCompacted has read in the place of its segment, durably, with the index it gave. Who reads the old one
// goes on with it. Doing it twice changes nothing; what a crash leaves is the old segment, the new one, or the new one whose digest is not known
// here, which doing it again finishes.
func (l *Log) InstallCompacted(x *segment.Index, sum [32]byte) error {
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if err := l.usable("compact"); err != nil {
		return err
	}
	if _, err := l.sealedSource(x.Base, "compact"); err != nil {
		return err
	}
	i := slices.IndexFunc(l.sealed, func(s *segment.Sealed) bool { return s.Summary().Base == x.Base })
	if s := l.sealed[i].Summary(); x.End != s.End || x.Tag != s.Tag {
		return fault.Errorf(fault.Internal, "compact segment [%d, %d): its index is of [%d, %d)", s.Base, s.End, x.Base, x.End)
	}
	err := l.sealed[i].Install(x, sum, func(now *segment.Sealed) {
		l.sealed = slices.Clone(l.sealed) // DropBefore may have given the old one away
		l.sealed[i] = now
		l.installed++
		l.relist()
		l.publish()
	})
	if err != nil {
		return fault.Wrap("compact", l.fail(err))
	}
	return nil
}

// DiscardCompacted removes the files of compactions that did not come to an end. The caller knows that the log names none of them.
func (l *Log) DiscardCompacted() error {
	names, err := l.fs.List(l.dir)
	if err != nil {
		return fault.Wrap("discard compacted segments", err)
	}
	for _, name := range names {
		if _, part, ok := segment.ParseName(name); ok && part == segment.CompactedPart {
			if err := l.fs.Remove(l.dir + "/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return diskError("discard compacted segment", err)
			}
		}
	}
	return nil
}
