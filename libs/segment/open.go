package segment

import (
	"errors"
	"fmt"
	"path"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// Extents: a growing file is given disk ahead of need, as much as it has, between these bounds.
const (
	minExtent  = 16 << 10
	maxExtent  = 16 << 20
	extentUnit = 4 << 10
	// keptVectors bounds the scratch memory that an idle segment keeps, in batches.
	keptVectors = 32
)

// Frame is a batch on its way into a segment.
type Frame struct {
	Header  batch.Header
	Message []byte
	Next    uint64 // batch.NextChain of the message
}

// Open is the segment that grows. One goroutine writes; Sync may run beside Append, in another. After any error but a full disk's the file's
// state is unknown and the segment may only be dropped: the errors say so by their kind, DiskFull (or Overloaded: too many open files) or
// DiskPoisoned.
type Open struct {
	files     *Files
	file      *File
	index     Index
	allocated int64 // bytes of disk that the file has, as far as we know
	recycled  int64 // the file's size while it ends in bytes of an earlier life; 0 = it does not
	vectors   [][]byte

	mu struct {
		sync.Mutex
		handle  vfs.File // pinned from the first write until everything is durable
		written int64    // bytes that a write has begun for
		synced  int64
	}
}

// Create makes the file of a new segment, durable with its name, and without a batch. chain is the chain word of its first batch. expect is
// about how many bytes it will take, where that is known: then it may be a recycled file.
func Create(files *Files, dir string, base partition.Offset, tag, chain uint64, expect int64) (*Open, error) {
	op := fmt.Sprintf("create segment %d", base)
	name := dir + "/" + Name(base, LogPart)
	o := &Open{files: files, index: Index{Summary: Summary{Base: base, End: base, Tag: tag, Chain: chain}}}
	if files.pool != nil && expect > 0 {
		size, err := files.pool.Take(name, base, tag, 2*expect)
		if err != nil {
			return nil, fault.Wrap(op, err)
		}
		if size > 0 {
			o.file, o.allocated, o.recycled = files.File(name), size, size
			return o, nil
		}
	}
	file, handle, err := files.Create(name)
	if err != nil {
		return nil, diskError(op, err)
	}
	o.file, o.mu.handle = file, handle
	if err := files.fs.SyncDir(dir); err != nil {
		return nil, poisoned(op, err)
	}
	return o, nil
}

// Adopt takes over a file of some size whose batches are those of an index, all durable: what recovery has left.
func Adopt(files *Files, dir string, x *Index, size int64) *Open {
	o := &Open{files: files, file: files.File(dir + "/" + Name(x.Base, LogPart)), index: *x, allocated: max(x.Size, size)}
	o.mu.written, o.mu.synced = x.Size, x.Size
	if pool.IsRecycled(size) {
		o.recycled = size
	}
	return o
}

// Summary tells what the segment holds.
func (o *Open) Summary() Summary { return o.index.Summary }

// Reader reads what the segment holds now.
func (o *Open) Reader() *Reader {
	x := o.index // shares the entries: those that a reader knows never change
	return &Reader{Summary: x.Summary, file: o.file, index: &x}
}

// Reindex has lookups begin at these batches of the segment: behind damage, where the way there leads over it.
func (o *Open) Reindex(entries []Entry) { o.index.Entries = entries }

// Unsynced tells how many bytes are written and not durable.
func (o *Open) Unsynced() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.written - o.mu.synced
}

// Append writes batches that continue the segment: the caller has checked that they do. They are not durable. When it fails, nothing is
// taken in, but bytes may lie behind the end: Rewind takes them away.
func (o *Open) Append(frames []Frame) error {
	var size int64
	o.vectors = o.vectors[:0]
	for i := range frames {
		o.vectors = append(o.vectors, frames[i].Message)
		size += int64(len(frames[i].Message))
	}
	handle, err := o.dirty(o.index.Size + size)
	if err != nil {
		return diskError(fmt.Sprintf("open segment %d", o.index.Base), err)
	}
	if err := o.reserve(handle, size); err != nil {
		return diskError(fmt.Sprintf("grow segment %d", o.index.Base), err)
	}
	o.fill(size)
	_, err = handle.Writev(o.vectors, o.index.Size)
	clear(o.vectors) // the messages are the caller's again
	if cap(o.vectors) > keptVectors {
		o.vectors = nil
	}
	if err != nil {
		return diskError(fmt.Sprintf("write segment %d", o.index.Base), err)
	}
	for i := range frames {
		o.index.Add(&frames[i].Header, frames[i].Next)
	}
	return nil
}

// zeros are written behind the last batch in a recycled file, up to the end of its page.
var zeros = make([]byte, extentUnit) //nolint:gochecknoglobals // never written

// fill makes a write into a recycled file, of size bytes, end with a page: for a part of one the kernel would have to read the rest first.
// The next append writes over the zeros, which are no batch.
func (o *Open) fill(size int64) {
	end := o.index.Size + size
	rest := min(-end&(extentUnit-1), o.recycled-end)
	if fresh := o.index.Size == 0 || (end-1)/extentUnit > (o.index.Size-1)/extentUnit; fresh && rest > 0 {
		o.vectors = append(o.vectors, zeros[:rest])
	}
}

// dirty pins the file until a sync covers size.
func (o *Open) dirty(size int64) (vfs.File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.handle == nil {
		handle, err := o.file.Pin()
		if err != nil {
			return nil, err
		}
		o.mu.handle = handle
	}
	o.mu.written = size
	return o.mu.handle, nil
}

// reserve gives the file disk for n more bytes, and some ahead.
func (o *Open) reserve(handle vfs.File, n int64) error {
	need := o.index.Size + n
	if need <= o.allocated {
		return nil
	}
	ahead := min(max(o.allocated, minExtent), maxExtent)
	to := (max(need, o.allocated+ahead) + extentUnit - 1) / extentUnit * extentUnit
	err := handle.Allocate(o.allocated, to-o.allocated)
	if vfs.IsFull(err) {
		to = need
		err = handle.Allocate(o.allocated, to-o.allocated)
	}
	if err == nil {
		o.allocated = to
	}
	return err
}

// Rewind cuts off what a failed Append may have left behind the end.
func (o *Open) Rewind() error {
	handle, err := o.dirty(o.index.Size)
	if err != nil {
		return poisoned(fmt.Sprintf("cut segment %d", o.index.Base), err)
	}
	o.allocated, o.recycled = o.index.Size, 0
	if err := handle.Truncate(o.index.Size); err != nil {
		return poisoned(fmt.Sprintf("cut segment %d", o.index.Base), err)
	}
	return nil
}

// Sync makes the first size bytes durable; the caller knows that they are written. It is never called twice at a time.
func (o *Open) Sync(size int64) error {
	o.mu.Lock()
	handle := o.mu.handle
	o.mu.Unlock()
	if handle == nil {
		return nil
	}
	if err := handle.Datasync(); err != nil {
		return poisoned(fmt.Sprintf("sync segment %d", o.index.Base), err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.synced = max(o.mu.synced, size)
	if o.mu.synced == o.mu.written {
		o.mu.handle = nil
		o.file.Unpin()
	}
	return nil
}

// Close makes everything durable, gives disk that was reserved back, and writes the index, which without a sync of its own is only as good
// as its checksum. logIndex hears why an index could not be written: it will be made again.
func (o *Open) Close(logIndex func(error)) (*Closed, error) {
	if err := o.Sync(o.index.Size); err != nil {
		return nil, err
	}
	if o.allocated > o.index.Size {
		if err := o.truncate(o.index.Size); err != nil {
			return nil, err
		}
	}
	if err := WriteIndex(o.files.fs, path.Dir(o.file.name), &o.index); err != nil {
		logIndex(err)
	}
	return closedOf(o.file, &o.index), nil
}

func (o *Open) truncate(size int64) error {
	handle, err := o.file.Pin()
	if err == nil {
		err = handle.Truncate(size)
		o.file.Unpin()
	}
	if err != nil {
		return poisoned(fmt.Sprintf("cut segment %d", o.index.Base), err)
	}
	o.allocated, o.recycled = size, 0
	return nil
}

// CutAt makes the segment end where the batch at place begins: first the index file goes, durably, since it proves more than will be there,
// then the bytes, durably. last is the header before the cut; nil if nothing is left.
func (o *Open) CutAt(place Place, last *batch.Header) error {
	if err := removeIndex(o.files.fs, o.file.name); err != nil {
		return err
	}
	x := o.index
	kept := 0
	for kept < len(x.Entries) && x.Entries[kept].Offset < place.Offset {
		kept++
	}
	// Readers may still hold the entries behind the cut: what is appended next must not be written over them.
	x.Entries = x.Entries[:kept:kept]
	x.End, x.Size, x.Chain = place.Offset, place.Position, place.Chain
	x.Epoch, x.FirstAppendTime, x.LastAppendTime = 0, 0, 0
	if last != nil {
		x.Epoch, x.FirstAppendTime, x.LastAppendTime = partition.Epoch(last.Epoch), o.index.FirstAppendTime, last.AppendTime
	}
	x.HasRecords = x.HasRecords && hasRecords(&Reader{Summary: x.Summary, file: o.file, index: &x})
	handle, err := o.dirty(x.Size)
	if err != nil {
		return poisoned(fmt.Sprintf("open segment %d", x.Base), err)
	}
	if err := handle.Truncate(x.Size); err != nil {
		return poisoned(fmt.Sprintf("cut segment %d", x.Base), err)
	}
	o.index, o.allocated, o.recycled = x, x.Size, 0
	o.mu.Lock()
	o.mu.synced = 0
	o.mu.Unlock()
	return o.Sync(x.Size)
}

// hasRecords tells whether a batch is not a control batch; where that cannot be read, it may be.
func hasRecords(r *Reader) bool {
	found := false
	err := r.Walk(Entry{Offset: r.Base}, func(s *Scanner) bool {
		found = !s.Header().IsControl()
		return !found
	})
	return found || err != nil
}

// Abandon closes the file without making anything durable: it is not to be used any more. What readers hold stays readable.
func (o *Open) Abandon() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.handle != nil {
		o.mu.handle = nil
		o.file.Unpin()
	}
	o.file.Forget()
}

// Remove removes the file, durably. Nothing may be read from the segment any more.
func (o *Open) Remove() error {
	o.Abandon()
	return removeFile(o.file, false)
}

func closedOf(file *File, x *Index) *Closed {
	c := &Closed{summary: x.Summary, file: file, slot: new(atomic.Pointer[Index])}
	file.files.keep(c.slot, x)
	return c
}

// diskError gives the error of a write its kind.
func diskError(op string, err error) error {
	switch {
	case err == nil:
		return nil
	case vfs.IsFull(err):
		return &fault.Error{Kind: fault.DiskFull, Op: op, Err: err}
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return &fault.Error{Kind: fault.Overloaded, Op: op, Err: err}
	default:
		return poisoned(op, err)
	}
}

// poisoned is for an error after which the state of the disk is unknown.
func poisoned(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fault.Error{Kind: fault.DiskPoisoned, Op: op, Err: err}
}
