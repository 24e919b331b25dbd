package segment

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
)

// repairedFile makes the file of a segment anew with good batches in place of a range, checks it from the first byte to the last, and puts it
// in the old one's place: synced, renamed, directory synced. The segment must then be whole up to the end that the summary says.
// sum, unless zero, is the digest that a whole segment must have.
func repairedFile(old *File, s Summary, sum [32]byte, begin Place, r Range, good [][]byte) (*File, *Index, error) {
	files, fsys := old.files, old.files.fs
	source, err := old.Pin()
	if err != nil {
		return nil, nil, diskError("open", err)
	}
	defer old.Unpin()
	temp := old.name + TempSuffix
	target, err := fsys.Open(temp, vfs.Write|vfs.Create) // cut below, if an earlier attempt has left it
	if err != nil {
		return nil, nil, diskError("create", err)
	}
	a, err := fillRepaired(target, source, s, begin, r, good)
	if err == nil && len(a.Faults) == 0 && sum != [32]byte{} {
		err = checkDigest(target, a.Index.Size, sum)
	}
	if closing := target.Close(); err == nil {
		err = closing
	}
	if err != nil {
		_ = fsys.Remove(temp) // what stays is removed by the next recovery
		return nil, nil, err
	}
	if err := fsys.Rename(temp, old.name); err != nil {
		return nil, nil, poisoned("rename", err)
	}
	if err := fsys.SyncDir(path.Dir(old.name)); err != nil {
		return nil, nil, poisoned("rename", err)
	}
	old.Forget()
	if len(a.Faults) == 0 {
		_ = WriteIndex(fsys, path.Dir(old.name), a.Index) // without it the next recovery makes one
	}
	return files.File(old.name), a.Index, nil
}

func checkDigest(file vfs.File, size int64, want [32]byte) error {
	got, err := digest(file, size)
	if err == nil && got != want {
		err = fault.Errorf(fault.Invalid, "the digest would be %x, the segment was sealed with %x", got, want)
	}
	return err
}

// fillRepaired writes the new file, makes it durable and checks it.
func fillRepaired(target, source vfs.File, s Summary, begin Place, r Range, good [][]byte) (*Assessment, error) {
	if err := target.Truncate(0); err != nil {
		return nil, diskError("cut", err)
	}
	if err := copyRange(target, source, 0, 0, r.Position); err != nil {
		return nil, err
	}
	n, err := target.Writev(good, r.Position)
	if err != nil {
		return nil, diskError("write", err)
	}
	behind := r.Position + int64(n)
	if err := copyRange(target, source, behind, r.Limit, max(0, s.Size-r.Limit)); err != nil {
		return nil, err
	}
	if err := target.Sync(); err != nil {
		return nil, poisoned("sync", err)
	}
	size := behind + max(0, s.Size-r.Limit)
	prefix := &Index{Summary: Summary{Base: s.Base, End: s.Base, Tag: s.Tag, Chain: begin.Chain}}
	a := Assess(target, size, prefix, begin.Unchained, Evidence{Synced: s.End})
	for _, left := range a.Faults { // others may be repaired later
		if left.From < r.To && left.To > r.From {
			return nil, fault.Errorf(fault.Corrupt, "check: [%d, %d) is still damaged: %w", left.From, left.To, a.Err)
		}
	}
	if a.End.Offset != s.End {
		return nil, fault.Errorf(fault.Corrupt, "check: it ends at %d instead of %d: %w", a.End.Offset, s.End, a.Err)
	}
	return a, nil
}

// copyRange copies n bytes between files.
func copyRange(target, source vfs.File, to, from, n int64) error {
	buffer := make([]byte, min(scanBytes, n))
	for n > 0 {
		p := buffer[:min(int64(len(buffer)), n)]
		got, err := source.ReadAt(p, from)
		if got < len(p) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return fault.Errorf(fault.Corrupt, "copy [%d, %d): %w", from, from+n, err)
		}
		if _, err := target.WriteAt(p, to); err != nil {
			return diskError("write", err)
		}
		to, from, n = to+int64(got), from+int64(got), n-int64(got)
	}
	return nil
}

// Repair gives the segment with good batches in place of a damaged range. begin is where it begins, with the chain word of its first batch.
// The Closed is not to be used any more when it succeeds.
func (c *Closed) Repair(begin Place, r Range, good [][]byte) (*Closed, error) {
	file, x, err := repairedFile(c.file, c.summary, [32]byte{}, begin, r, good)
	if err != nil {
		return nil, fault.Wrap(fmt.Sprintf("repair segment %d", c.summary.Base), err)
	}
	return closedOf(file, x), nil
}

// Repair gives the segment with good batches in place of a damaged range. The Sealed is not to be used any more when it succeeds.
func (s *Sealed) Repair(begin Place, r Range, good [][]byte) (*Sealed, error) {
	file, x, err := repairedFile(s.file, s.summary, s.sum, begin, r, good)
	if err != nil {
		return nil, fault.Wrap(fmt.Sprintf("repair segment %d", s.summary.Base), err)
	}
	c := closedOf(file, x)
	return &Sealed{summary: c.summary, file: c.file, slot: c.slot, sum: s.sum}, nil
}

// Repair writes good batches over a damaged range, in place: they have the size of the range, or end where the log does. What is there is
// damaged already, and known to be, so a crash makes nothing worse. begin is as for a Closed. The Open is not to be used any more.
func (o *Open) Repair(begin Place, r Range, good [][]byte) (*Open, error) {
	op := fmt.Sprintf("repair segment %d", o.index.Base)
	size := 0
	for _, msg := range good {
		size += len(msg)
	}
	atEnd := r.To == o.index.End
	if int64(size) != r.Limit-r.Position && !atEnd {
		return nil, fault.Errorf(fault.Invalid, "%s: %d bytes for a range of %d", op, size, r.Limit-r.Position)
	}
	handle, err := o.file.Pin()
	if err != nil {
		return nil, diskError(op, err)
	}
	defer o.file.Unpin()
	if _, err := handle.Writev(good, r.Position); err != nil {
		return nil, diskError(op, err)
	}
	end := max(o.index.Size, r.Position+int64(size))
	if atEnd {
		end = r.Position + int64(size)
		if err := handle.Truncate(end); err != nil {
			return nil, poisoned(op, err)
		}
	}
	if err := handle.Datasync(); err != nil {
		return nil, poisoned(op, err)
	}
	prefix := &Index{Summary: Summary{Base: o.index.Base, End: o.index.Base, Tag: o.index.Tag, Chain: begin.Chain}}
	a := Assess(handle, end, prefix, begin.Unchained, Evidence{Synced: o.index.End})
	for _, left := range a.Faults {
		if left.From < r.To && left.To > r.From {
			return nil, fault.Errorf(fault.Corrupt, "%s: [%d, %d) is still damaged: %w", op, left.From, left.To, a.Err)
		}
	}
	if a.End.Offset != o.index.End {
		return nil, fault.Errorf(fault.Corrupt, "%s: it ends at %d instead of %d: %w", op, a.End.Offset, o.index.End, a.Err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	repaired := &Open{files: o.files, file: o.file, index: *a.Index, allocated: max(o.allocated, end)}
	repaired.mu.handle, repaired.mu.written, repaired.mu.synced = o.mu.handle, end, end
	return repaired, nil
}
