package segment

import (
	"fmt"
	"path"
	"sync/atomic"
)

// Closed is a segment that ended, durable as a whole. It may still be reopened and cut: its Seal is not committed. Methods that change
// something belong to one goroutine at a time.
type Closed struct {
	summary Summary
	file    *File
	slot    *atomic.Pointer[Index]
}

// AdoptClosed takes over a file whose batches are those of an index, all durable.
func AdoptClosed(files *Files, dir string, x *Index) *Closed {
	return closedOf(files.File(dir+"/"+Name(x.Base, LogPart)), x)
}

// Summary tells what the segment holds.
func (c *Closed) Summary() Summary { return c.summary }

// Reader reads the segment.
func (c *Closed) Reader() *Reader { return &Reader{Summary: c.summary, file: c.file, slot: c.slot} }

// Reopen makes the segment grow again. The Closed is not to be used any more.
func (c *Closed) Reopen() (*Open, error) {
	x, err := c.Reader().Index()
	if err != nil {
		return nil, err
	}
	own := *x
	own.Entries = append([]Entry(nil), x.Entries...) // x may be shared
	o := &Open{files: c.file.files, file: c.file, index: own, allocated: own.Size}
	o.mu.written, o.mu.synced = own.Size, own.Size
	return o, nil
}

// Seal makes the segment final: its digest and the partition's state at its end are durable when it returns. The Closed is not to be used any
// more.
func (c *Closed) Seal(sum [32]byte, state []byte) (*Sealed, error) {
	s := &Sealed{summary: c.summary, file: c.file, slot: c.slot, sum: sum}
	snapshot := Snapshot{Base: c.summary.Base, End: c.summary.End, Size: c.summary.Size, SHA256: sum, State: state}
	p, err := snapshot.AppendTo(nil)
	if err != nil {
		return nil, err
	}
	if err := writeFile(c.file.files.fs, s.snapshotName(), p, true); err != nil {
		return nil, diskError(fmt.Sprintf("write snapshot of segment %d", c.summary.Base), err)
	}
	return s, nil
}

// Remove removes the files, durably. Nothing may be read from the segment any more.
func (c *Closed) Remove() error { return removeFile(c.file, false) }

// Sealed is a segment that never changes again. Safe for concurrent use, but for Remove.
type Sealed struct {
	summary Summary
	file    *File
	slot    *atomic.Pointer[Index]
	sum     [32]byte
}

// AdoptSealed takes over a file whose batches are those of an index, all durable, and that was sealed with this digest.
func AdoptSealed(files *Files, dir string, x *Index, sum [32]byte) *Sealed {
	c := AdoptClosed(files, dir, x)
	return &Sealed{summary: c.summary, file: c.file, slot: c.slot, sum: sum}
}

// Summary tells what the segment holds.
func (s *Sealed) Summary() Summary { return s.summary }

// SHA256 is the digest of its Seal; zero if it is not known here.
func (s *Sealed) SHA256() [32]byte { return s.sum }

// Reader reads the segment.
func (s *Sealed) Reader() *Reader { return &Reader{Summary: s.summary, file: s.file, slot: s.slot} }

func (s *Sealed) snapshotName() string {
	return path.Dir(s.file.name) + "/" + Name(s.summary.Base, SnapshotPart)
}

// Remove removes index and log, durably; the log may go into the pool. The snapshot stays. Nothing may be read from the segment any more.
func (s *Sealed) Remove() error { return removeFile(s.file, true) }
