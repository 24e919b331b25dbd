package wal

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
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
	s, err := l.view.Load().source(base)
	if err != nil {
		return nil, err
	}
	if s.state != StateSealed {
		return nil, fault.Errorf(fault.Conflict, "%s segment %d: it is not sealed", what, base)
	}
	if bad, ok := l.faultOf(base); ok {
		return nil, l.damaged(what, bad.From, bad)
	}
	return s, nil
}

// Compacted begins the file that is to take a sealed segment's place. Nothing of the log changes by it.
func (l *Log) Compacted(base partition.Offset) (*Compacted, error) {
	if _, err := l.sealedSource(base, "compact"); err != nil {
		return nil, err
	}
	return createCompacted(l.fs, l.dir, base)
}

// CheckCompacted reads the file that is to take a sealed segment's place, or the segment's own where it has done so already, as a whole: whether it
// has this size and digest and holds batches of this segment from its base to its end. It gives what InstallCompacted needs. fault.NotFound:
// neither has.
func (l *Log) CheckCompacted(base partition.Offset, size int64, sum [32]byte) (*segment.Index, error) {
	s, err := l.sealedSource(base, "check")
	if err != nil {
		return nil, err
	}
	for _, part := range []segment.Part{segment.CompactedPart, segment.LogPart} {
		x, err := l.checkFile(&s.Summary, l.path(base, part), size, sum)
		if err == nil || !fault.Is(err, fault.NotFound) {
			return x, err
		}
	}
	return nil, fault.Errorf(fault.NotFound, "find the compacted segment %d: no file here has its %d bytes and digest", base, size)
}

func (l *Log) checkFile(s *segment.Summary, name string, size int64, sum [32]byte) (*segment.Index, error) {
	info, err := l.fs.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size != size {
		return nil, fault.Errorf(fault.NotFound, "%s has not %d bytes", l.fs.Name(name), size)
	}
	var file vfs.File
	if err == nil {
		file, err = l.fs.Open(name, 0)
	}
	if err != nil {
		return nil, diskError("open "+l.fs.Name(name), err)
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.CopyBuffer(digest, io.NewSectionReader(file, 0, size), make([]byte, compactedBuffer)); err != nil {
		return nil, fault.Errorf(fault.Corrupt, "read %s: %w", l.fs.Name(name), err)
	}
	if [32]byte(digest.Sum(nil)) != sum {
		return nil, fault.Errorf(fault.NotFound, "%s has another digest", l.fs.Name(name))
	}
	x := &segment.Index{Summary: segment.Summary{Base: s.Base, End: s.Base, Tag: s.Tag}}
	var scanner segment.Scanner
	scanner.Reset(file, size, x.Base, x.Tag, segment.Place{Offset: x.Base, Unchained: true}, size)
	for scanner.Next() {
		x.Add(scanner.Header(), scanner.Place().Chain)
	}
	if err := scanner.Err(); err != nil || x.End != s.End || x.Size != size {
		return nil, fault.Errorf(fault.Corrupt, "read %s: batches up to %d in %d of %d bytes, the segment ends at %d: %w",
			l.fs.Name(name), x.End, x.Size, size, s.End, errors.Join(err))
	}
	return x, nil
}

// InstallCompacted puts the file that CheckCompacted has read in the place of its segment, durably, with the index it gave. Who reads the old one
// goes on with it. Doing it twice, or for a segment that was dropped, changes nothing; what a crash, or a full disk, leaves is the old segment, the new one, or the new one whose
// digest is not known here, which doing it again finishes.
func (l *Log) InstallCompacted(x *segment.Index, sum [32]byte) error {
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if err := l.usable("compact"); err != nil {
		return err
	}
	if _, err := l.sealedSource(x.Base, "compact"); fault.Is(err, fault.NotFound) {
		return nil
	} else if err != nil {
		return err
	}
	i := slices.IndexFunc(l.sealed, func(s *segment.Sealed) bool { return s.Summary().Base == x.Base })
	if s := l.sealed[i].Summary(); x.End != s.End || x.Tag != s.Tag {
		return fault.Errorf(fault.Internal, "compact segment [%d, %d): its index is of [%d, %d)", s.Base, s.End, x.Base, x.End)
	}
	if err := l.replace(i, x, sum); err != nil {
		return fault.Wrap("compact", l.fail(err))
	}
	if err := l.renewSnapshot(x, sum); err != nil {
		return fault.Wrap("compact", l.fail(err))
	}
	// Not before the name is durable: it would be found beside the old file.
	if err := segment.WriteIndex(l.fs, l.dir, x); err != nil {
		l.log.Warn("cannot write an index, it will be made again", "segment", uint64(x.Base), "err", err)
	}
	return nil
}

// replace renames the compacted file, unless it is in its place already, and has readers see it.
func (l *Log) replace(i int, x *segment.Index, sum [32]byte) error {
	old := l.sealed[i].Reader().File()
	// The old file must be open while its name means the new one: whoever pins it in between gets the bytes that belong to it.
	if _, err := old.Pin(); err != nil {
		return &fault.Error{Kind: fault.Overloaded, Op: "open", Err: err} // nothing has changed
	}
	defer old.Unpin()
	err := l.fs.Rename(l.path(x.Base, segment.CompactedPart), l.path(x.Base, segment.LogPart))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fault.Error{Kind: fault.DiskPoisoned, Op: "rename", Err: err}
	}
	l.sealed = slices.Clone(l.sealed) // the array may be shared with what DropBefore has left
	l.sealed[i] = segment.AdoptSealed(l.files, l.dir, x, sum)
	l.installed++
	l.relist()
	l.publish()
	old.Forget() // who finds it gone looks again
	if err := l.fs.SyncDir(l.dir); err != nil {
		return &fault.Error{Kind: fault.DiskPoisoned, Op: "sync directory", Err: err}
	}
	return nil
}

// renewSnapshot has the snapshot say the new size and digest; its state stays.
func (l *Log) renewSnapshot(x *segment.Index, sum [32]byte) error {
	s, err := segment.LoadSnapshot(l.fs, l.path(x.Base, segment.SnapshotPart))
	if err != nil || s.Base != x.Base || s.End != x.End || s.Size == x.Size && s.SHA256 == sum {
		return nil //nolint:nilerr // one that cannot be read was not to be used before either
	}
	s.Size, s.SHA256 = x.Size, sum
	return s.Write(l.fs, l.dir)
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
