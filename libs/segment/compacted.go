package segment

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
)

// Compacted is the frames that are to take a sealed segment's place, in a file of their own beside it. It belongs to one goroutine.
type Compacted struct {
	fs     vfs.FS
	name   string
	file   vfs.File
	digest hash.Hash
	buffer []byte
	size   int64
}

// compactedBuffer is how much is written at once.
const compactedBuffer = 256 << 10

// CreateCompacted begins the file, over what an earlier attempt has left.
func CreateCompacted(fsys vfs.FS, dir string, base partition.Offset) (*Compacted, error) {
	c := &Compacted{fs: fsys, name: dir + "/" + Name(base, CompactedPart), digest: sha256.New()}
	file, err := fsys.Open(c.name, vfs.Write|vfs.Create)
	if err == nil {
		if err = file.Truncate(0); err != nil {
			_ = file.Close()
		}
	}
	if err != nil {
		return nil, diskError("create "+fsys.Name(c.name), err)
	}
	c.file = file
	return c, nil
}

// Append adds a batch.
func (c *Compacted) Append(msg []byte) error {
	c.buffer = append(c.buffer, msg...)
	if len(c.buffer) < compactedBuffer {
		return nil
	}
	return c.flush()
}

func (c *Compacted) flush() error {
	if len(c.buffer) == 0 {
		return nil
	}
	if _, err := c.file.WriteAt(c.buffer, c.size); err != nil {
		return diskError("write "+c.fs.Name(c.name), err)
	}
	_, _ = c.digest.Write(c.buffer) // never fails
	c.size += int64(len(c.buffer))
	c.buffer = c.buffer[:0]
	return nil
}

// Sync makes durable what was appended, so that no large amount of it waits for one sync in the end.
func (c *Compacted) Sync() error {
	if err := c.flush(); err != nil {
		return err
	}
	return diskError("sync "+c.fs.Name(c.name), c.file.Datasync())
}

// Finish makes the file and its name durable and gives its size and digest.
func (c *Compacted) Finish() (size int64, sum [32]byte, err error) {
	if err := c.Sync(); err != nil {
		return 0, sum, errors.Join(err, c.Abandon())
	}
	if err := c.file.Close(); err != nil {
		return 0, sum, diskError("close "+c.fs.Name(c.name), err)
	}
	if err := c.fs.SyncDir(path.Dir(c.name)); err != nil {
		return 0, sum, poisoned("sync directory", err)
	}
	return c.size, [32]byte(c.digest.Sum(nil)), nil
}

// Abandon removes the file. What a crash makes of that does not matter.
func (c *Compacted) Abandon() error {
	_ = c.file.Close() // nothing in it is needed
	if err := c.fs.Remove(c.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return diskError("remove "+c.fs.Name(c.name), err)
	}
	return nil
}

// Size is how much was appended.
func (c *Compacted) Size() int64 { return c.size + int64(len(c.buffer)) }

// CheckCompacted reads the file that is to take the segment's place, or the segment's own where it has done so already, as a whole: whether it
// has this size and digest and holds batches of this segment from its base to its end. It gives their index. fault.NotFound: neither has.
func (r *Reader) CheckCompacted(size int64, sum [32]byte) (*Index, error) {
	fsys := r.file.files.fs
	for _, name := range []string{compactedName(r.file.name, r.Base), r.file.name} {
		x, err := r.checkFile(fsys, name, size, sum)
		if err == nil || !fault.Is(err, fault.NotFound) {
			return x, err
		}
	}
	return nil, fault.Errorf(fault.NotFound, "find the compacted segment %d: no file here has its %d bytes and digest", r.Base, size)
}

func (r *Reader) checkFile(fsys vfs.FS, name string, size int64, sum [32]byte) (*Index, error) {
	info, err := fsys.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size != size {
		return nil, fault.Errorf(fault.NotFound, "%s has not %d bytes", fsys.Name(name), size)
	}
	var file vfs.File
	if err == nil {
		file, err = fsys.Open(name, 0)
	}
	if err != nil {
		return nil, diskError("open "+fsys.Name(name), err)
	}
	defer file.Close()
	digest := sha256.New()
	if _, err := io.CopyBuffer(digest, io.NewSectionReader(file, 0, size), make([]byte, digestBytes)); err != nil {
		return nil, fault.Errorf(fault.Corrupt, "read %s: %w", fsys.Name(name), err)
	}
	if [32]byte(digest.Sum(nil)) != sum {
		return nil, fault.Errorf(fault.NotFound, "%s has another digest", fsys.Name(name))
	}
	x := &Index{Summary: Summary{Base: r.Base, End: r.Base, Tag: r.Tag}}
	var scanner Scanner
	scanner.Reset(file, size, x.Base, x.Tag, Place{Offset: x.Base, Unchained: true}, size)
	for scanner.Next() {
		x.Add(scanner.Header(), scanner.Place().Chain)
	}
	if err := scanner.Err(); err != nil || x.End != r.End || x.Size != size {
		return nil, fault.Errorf(fault.Corrupt, "read %s: batches up to %d in %d of %d bytes, the segment ends at %d: %w",
			fsys.Name(name), x.End, x.Size, size, r.End, errors.Join(err))
	}
	return x, nil
}

// Install puts the compacted file in the segment's place, with the index that CheckCompacted gave. replaced gets the segment that it is now, before
// anybody fails to pin the old file; who has that pinned goes on reading it. If the file is in its place already, what is left to do is done.
// Durable when it returns nil. What fails behind the call of replaced is done by another Install, of either segment.
func (s *Sealed) Install(x *Index, sum [32]byte, replaced func(*Sealed)) error {
	fsys, dir := s.file.files.fs, path.Dir(s.file.name)
	// The old file must be open while its name means the new one: whoever pins it in between gets the bytes that belong to it.
	if _, err := s.file.Pin(); err != nil {
		return diskError("open", err)
	}
	defer s.file.Unpin()
	err := fsys.Rename(compactedName(s.file.name, s.summary.Base), s.file.name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return poisoned("rename", err)
	}
	now := &Sealed{summary: x.Summary, file: s.file.files.File(s.file.name), slot: new(atomic.Pointer[Index]), sum: sum}
	s.file.files.keep(now.slot, x)
	replaced(now)
	s.file.Forget()
	if err := fsys.SyncDir(dir); err != nil {
		return poisoned("sync directory", err)
	}
	if err := s.renewSnapshot(x, sum); err != nil {
		return err
	}
	// Not before the name is durable: it would be found beside the old file.
	_ = WriteIndex(fsys, dir, x) // without it the next recovery makes one
	return nil
}

// renewSnapshot has the snapshot say the new size and digest; its state stays.
func (s *Sealed) renewSnapshot(x *Index, sum [32]byte) error {
	fsys, name := s.file.files.fs, s.snapshotName()
	snapshot, err := LoadSnapshot(fsys, name)
	if err != nil || snapshot.Base != x.Base || snapshot.End != x.End {
		return nil // it was not to be used before either
	}
	if snapshot.Size == x.Size && snapshot.SHA256 == sum {
		return nil
	}
	snapshot.Size, snapshot.SHA256 = x.Size, sum
	p, err := snapshot.AppendTo(nil)
	if err != nil {
		return err
	}
	return diskError(fmt.Sprintf("write snapshot of segment %d", x.Base), writeFile(fsys, name, p, true))
}

func compactedName(logName string, base partition.Offset) string {
	return path.Dir(logName) + "/" + Name(base, CompactedPart)
}
