package pool

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// Pool keeps the files of dropped segments, with the disk blocks they have, for new segments of the same disk: writing over a block and
// syncing it costs about half of what a fresh one does. A file in the pool, and one that was taken out and is not full yet, has a size that
// no sequence of batches has (recycledSize): so it is known, after any crash, that its end is not the segment's. It has one earlier life, and
// is never given to a segment that this life's batches could be taken for. Safe for concurrent use.
type Pool struct {
	fs     vfs.FS
	dir    string
	limits Limits

	mu struct {
		sync.Mutex
		free  []pooled
		bytes int64 // of free
		next  uint64
	}
}

type pooled struct {
	name string
	size int64
	// Whose bytes it has.
	tag  uint64
	base partition.Offset
}

// serves tells whether no batch in the file fits into a segment: those of another partition have another tag, those of an earlier segment
// another base. A replica that is made again may write the very segment that is in the file.
func (f *pooled) serves(tag uint64, base partition.Offset) bool { return f.tag != tag || f.base < base }

// Limits bounds a pool.
type Limits struct {
	// FileBytes is the smallest file worth keeping.
	FileBytes int64
	// PoolBytes bounds all files together.
	PoolBytes int64
}

const (
	suffix = ".free"
	digits = 20
	// batchUnit is what the size of every batch is a multiple of.
	batchUnit = 8
)

// recycledSize gives the largest size up to n that says that a file is recycled.
func recycledSize(n int64) int64 { return n/batchUnit*batchUnit - batchUnit + 1 }

// IsRecycled tells by a file's size whether its end is not that of its segment: behind the batches lie bytes of an earlier life.
func IsRecycled(size int64) bool { return size%batchUnit == 1 }

// New opens the pool in a directory, which it makes if missing, and takes over the files in it, as far as they fit.
func New(fsys vfs.FS, dir string, limits Limits) (*Pool, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, diskError("make pool", err)
	}
	names, err := fsys.List(dir)
	if err != nil {
		return nil, diskError("list pool", err)
	}
	p := &Pool{fs: fsys, dir: dir, limits: limits}
	for _, name := range names {
		number, err := strconv.ParseUint(strings.TrimSuffix(name, suffix), 10, 64)
		if err != nil || !strings.HasSuffix(name, suffix) {
			continue
		}
		p.mu.next = max(p.mu.next, number+1)
		if err := p.admit(dir + "/" + name); err != nil {
			return nil, err
		}
	}
	return p, poisoned("sync pool", fsys.SyncDir(dir))
}

// admit takes a file that is in the directory into the list, or removes it.
func (p *Pool) admit(name string) error {
	file, keep, err := p.look(name)
	if err != nil {
		return err
	}
	p.mu.Lock()
	if keep = keep && p.mu.bytes+file.size <= p.limits.PoolBytes; keep {
		p.mu.free = append(p.mu.free, file)
		p.mu.bytes += file.size
	}
	p.mu.Unlock()
	if !keep {
		return diskError("remove a pooled file", p.fs.Remove(name))
	}
	return nil
}

// look finds out what a file is, and gives it the size that says that it is recycled, durably. keep: it is worth it.
func (p *Pool) look(name string) (found pooled, keep bool, err error) {
	file, err := p.fs.Open(name, vfs.Write)
	if err != nil {
		return found, false, diskError("open a pooled file", err)
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return found, false, diskError("look at a pooled file", err)
	}
	var first [batch.HeaderBytes]byte
	if size < max(p.limits.FileBytes-batchUnit, int64(len(first))) {
		return found, false, nil
	}
	if _, err := file.ReadAt(first[:], 0); err != nil {
		return found, false, nil // then it is not known whose bytes it has
	}
	h, err := batch.ParseHeader(first[:])
	if err != nil {
		return found, false, nil // the same
	}
	if !IsRecycled(size) {
		size = recycledSize(size)
		if err := file.Truncate(size); err != nil {
			return found, false, poisoned("cut a pooled file", err)
		}
		if err := file.Sync(); err != nil {
			return found, false, poisoned("sync a pooled file", err)
		}
	}
	return pooled{name: name, size: size, tag: h.PartitionTag, base: partition.Offset(h.SegmentBase)}, true, nil
}

// Give moves a file that nobody has open into the pool; false if there is no room for it.
func (p *Pool) Give(name string) (bool, error) {
	info, err := p.fs.Stat(name)
	if err != nil {
		return false, diskError("look at a segment", err)
	}
	p.mu.Lock()
	// A crash may have left a file that was not cut to its batches: it has bytes of two lives.
	fits := !IsRecycled(info.Size) && info.Size >= p.limits.FileBytes && p.mu.bytes+info.Size <= p.limits.PoolBytes
	number := p.mu.next
	p.mu.next++
	p.mu.Unlock()
	if !fits {
		return false, nil
	}
	to := fmt.Sprintf("%s/%0*d%s", p.dir, digits, number, suffix)
	if err := p.fs.Rename(name, to); err != nil {
		return false, poisoned("move a segment into the pool", err)
	}
	// Only when its old name is gone for good may its bytes change.
	for _, dir := range []string{p.dir, path.Dir(name)} {
		if err := p.fs.SyncDir(dir); err != nil {
			return false, poisoned("move a segment into the pool", err)
		}
	}
	return true, p.admit(to)
}

// Take moves a file of at most maxSize out of the pool to name, which is not taken, durably, and gives its size; 0 if there is none for a segment
// with this tag and base.
func (p *Pool) Take(name string, base partition.Offset, tag uint64, maxSize int64) (int64, error) {
	got := pooled{}
	p.mu.Lock()
	for i, file := range p.mu.free {
		if file.size <= maxSize && file.serves(tag, base) {
			got = file
			p.mu.free = append(p.mu.free[:i], p.mu.free[i+1:]...)
			p.mu.bytes -= file.size
			break
		}
	}
	p.mu.Unlock()
	if got.size == 0 {
		return 0, nil
	}
	if _, err := p.fs.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return 0, poisoned("take a pooled file", errors.Join(fs.ErrExist, err))
	}
	if err := p.fs.Rename(got.name, name); err != nil {
		return 0, poisoned("take a pooled file", err)
	}
	for _, dir := range []string{path.Dir(name), p.dir} {
		if err := p.fs.SyncDir(dir); err != nil {
			return 0, poisoned("take a pooled file", err)
		}
	}
	return got.size, nil
}

// Shrink removes files until at most maxBytes are kept: a full disk needs the room. What is given later is kept as before.
func (p *Pool) Shrink(maxBytes int64) error {
	for {
		p.mu.Lock()
		last := len(p.mu.free) - 1
		if last < 0 || p.mu.bytes <= maxBytes {
			p.mu.Unlock()
			return nil
		}
		file := p.mu.free[last]
		p.mu.free = p.mu.free[:last]
		p.mu.bytes -= file.size
		p.mu.Unlock()
		if err := p.fs.Remove(file.name); err != nil {
			return diskError("remove a pooled file", err)
		}
	}
}

// Bytes tells how much disk the pool keeps.
func (p *Pool) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.bytes
}

// diskError gives the error of the disk its kind.
func diskError(op string, err error) error {
	if err != nil && vfs.IsFull(err) {
		return &fault.Error{Kind: fault.DiskFull, Op: op, Err: err}
	}
	return poisoned(op, err)
}

// poisoned is for an error after which the state of the disk is unknown.
func poisoned(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: fault.DiskPoisoned, Op: op, Err: err}
}
