package wal

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io/fs"
	"path"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
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

// createCompacted begins the file, over what an earlier attempt has left.
func createCompacted(fsys vfs.FS, dir string, base partition.Offset) (*Compacted, error) {
	c := &Compacted{fs: fsys, name: dir + "/" + segment.Name(base, segment.CompactedPart), digest: sha256.New()}
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
	if err := c.file.Datasync(); err != nil {
		return diskError("sync "+c.fs.Name(c.name), err)
	}
	return nil
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
		return 0, sum, diskError("sync directory", err)
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
