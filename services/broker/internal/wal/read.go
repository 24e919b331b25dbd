package wal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sort"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// Chunk is a run of whole batches in one file, a body (frame.Body) that can be sent without a copy. It keeps its file open until Close.
type Chunk struct {
	// FirstOffset is the first batch's; it may lie below what was asked for. NextOffset is where the next read goes on.
	FirstOffset, NextOffset partition.Offset
	// Unreadable, if set, hears that the disk could not give some of the bytes when they were sent.
	Unreadable func(at partition.Offset)

	file     *segment.File // nil where there is nothing
	handle   vfs.File
	position int64
	size     int64
	closed   atomic.Bool
}

// Len gives the bytes.
func (c *Chunk) Len() int { return int(c.size) }

// WriteTo sends the bytes, by sendfile where w is a TCP connection.
func (c *Chunk) WriteTo(w io.Writer) (int64, error) {
	if c.size == 0 {
		return 0, nil
	}
	n, err := c.handle.SendTo(w, c.position, c.size)
	if c.Unreadable != nil && vfs.IsUnreadable(err) {
		c.Unreadable(c.FirstOffset)
	}
	return n, err
}

// ReadAt reads the bytes, as io.ReaderAt.
func (c *Chunk) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= c.size {
		return 0, io.EOF
	}
	short := int64(len(p)) > c.size-off
	if short {
		p = p[:c.size-off]
	}
	n, err := c.handle.ReadAt(p, c.position+off)
	if err == nil && short {
		err = io.EOF
	}
	return n, err
}

// Close lets go of the file; again it does nothing.
func (c *Chunk) Close() error {
	if c.file != nil && !c.closed.Swap(true) {
		c.file.Unpin()
	}
	return nil
}

// Read finds the batches from the one that holds from on: whole ones that end at or below limit, in one file, at most maxBytes but at least
// one. Without any it gives an empty Chunk with NextOffset = from. The bytes are not checked: whoever reads them does.
//
// Below Start: ErrBelowStart (fault.OffsetTiered with the start). Above limit or End: fault.OffsetOutOfRange with the lower of them. In a
// damaged range: fault.Corrupt with the offset behind it. What cannot be read although it is not known as damaged is fault.Corrupt too, without
// that offset: Examine finds what it is.
func (l *Log) Read(from, limit partition.Offset, maxBytes int) (*Chunk, error) {
	return current(l, func(v *view) (*Chunk, error) { return l.read(v, from, limit, maxBytes) })
}

// current looks at the log as it is, and again if the file that was looked for has made room for a compacted one in the meantime.
func current[T any](l *Log, look func(*view) (T, error)) (T, error) {
	for {
		v := l.view.Load()
		found, err := look(v)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || l.view.Load().installed == v.installed {
			return found, err
		}
	}
}

func (l *Log) read(v *view, from, limit partition.Offset, maxBytes int) (*Chunk, error) {
	limit = min(limit, v.tail.End)
	if err := v.covers(from, limit); err != nil {
		return nil, fault.Wrap(op("read", from), err)
	}
	for _, bad := range v.faults {
		if bad.Contains(from) {
			return nil, l.damaged("read", from, bad)
		}
		if bad.From > from {
			limit = min(limit, bad.From)
			break
		}
	}
	empty := &Chunk{FirstOffset: from, NextOffset: from}
	if from == limit {
		return empty, nil
	}
	r := v.find(from)
	run, err := r.Run(from, limit, int64(maxBytes), l.near(v, r, from))
	if err != nil {
		return nil, err
	}
	if run.Size == 0 {
		return empty, nil
	}
	l.cursors[cursorOf(run.Next)].Store(&cursor{
		Entry: segment.Entry{Offset: run.Next, Position: run.Position + run.Size}, base: r.Base, generation: v.generation, installed: v.installed,
	})
	c := &Chunk{FirstOffset: run.First, NextOffset: run.Next, position: run.Position, size: run.Size}
	return c.pin(r.File())
}

// cursor is where an earlier read ended: a reader that goes on there need not search.
type cursor struct {
	segment.Entry
	base                  partition.Offset
	generation, installed uint64
}

// cursors is how many of them a log remembers.
const cursors = 16

// cursorOf picks the slot of an offset: a multiplicative hash, since readers may be at the same distance from each other.
func cursorOf(o partition.Offset) int { return int(uint64(o) * 0x9e3779b97f4a7c15 >> 60) }

// near gives the place of an offset if some reader has just come there; else nothing.
func (l *Log) near(v *view, r *segment.Reader, from partition.Offset) segment.Entry {
	c := l.cursors[cursorOf(from)].Load()
	if c == nil || c.Offset != from || c.base != r.Base || c.generation != v.generation || c.installed != v.installed {
		return segment.Entry{}
	}
	return c.Entry
}

// pin opens a chunk's file.
func (c *Chunk) pin(file *segment.File) (*Chunk, error) {
	handle, err := file.Pin()
	if err != nil {
		return nil, fmt.Errorf("open log file: %w", err)
	}
	c.file, c.handle = file, handle
	return c, nil
}

// covers tells whether from may be asked for when offsets below limit can be read.
func (v *view) covers(from, limit partition.Offset) error {
	switch {
	case from < v.start:
		return &fault.Error{Kind: fault.OffsetTiered, Err: ErrBelowStart, Offset: uint64(v.start)}
	case from > limit:
		return &fault.Error{Kind: fault.OffsetOutOfRange, Err: fmt.Errorf("the end is %d", limit), Offset: uint64(limit)}
	default:
		return nil
	}
}

// find gives the segment that holds an offset of [start, end).
func (v *view) find(o partition.Offset) *segment.Reader {
	if v.open != nil && o >= v.open.Base {
		return v.open.Reader
	}
	i := sort.Search(len(v.closed), func(i int) bool { return v.closed[i].End > o })
	return v.closed[min(i, len(v.closed)-1)].Reader
}

// all gives the segments in order.
func (v *view) all() []source {
	if v.open == nil {
		return v.closed
	}
	return append(v.closed[:len(v.closed):len(v.closed)], *v.open)
}

// OffsetAt gives the first offset whose batch was appended at appendTime (microseconds since 1970) or later, at most limit.
func (l *Log) OffsetAt(appendTime int64, limit partition.Offset) (partition.Offset, error) {
	return current(l, func(v *view) (partition.Offset, error) {
		limit := min(limit, v.tail.End)
		all := v.all()
		i := sort.Search(len(all), func(i int) bool { return all[i].Size > 0 && all[i].LastAppendTime >= appendTime })
		if i == len(all) {
			return limit, nil
		}
		found, err := all[i].FirstAt(appendTime)
		if fault.Is(err, fault.Corrupt) {
			// What stands behind the damage may be too late: it begins in it, then.
			if x, indexErr := all[i].Index(); indexErr == nil {
				found, err = v.faultBehind(&all[i], x.Before(appendTime).Offset, err)
			}
		}
		return min(found, limit), err
	})
}

// At gives the header of the batch that holds an offset of [Start, End).
func (l *Log) At(o partition.Offset) (batch.Header, error) {
	return current(l, func(v *view) (batch.Header, error) {
		err := v.covers(o, v.tail.End)
		if err == nil && o == v.tail.End {
			err = &fault.Error{Kind: fault.OffsetOutOfRange, Err: fmt.Errorf("the end is %d", o), Offset: uint64(o)}
		}
		if err != nil {
			return batch.Header{}, fault.Wrap(op("read header", o), err)
		}
		h, _, err := v.find(o).Header(o)
		return h, err
	})
}

// Scan visits the batches from the one that holds from on up to the present End, with bodies checked; the message is valid during the visit
// only. It stops at the first error of fn, or with fault.Corrupt at damage.
func (l *Log) Scan(from partition.Offset, fn func(h batch.Header, msg []byte) error) error {
	v := l.view.Load()
	if err := v.covers(from, v.tail.End); err != nil {
		return fault.Wrap(op("scan", from), err)
	}
	all := v.all()
	for i := range all {
		if all[i].End <= from {
			continue
		}
		for _, bad := range v.faults {
			if bad.Contains(max(from, all[i].Base)) {
				return l.damaged("scan", bad.From, bad)
			}
		}
		if err := all[i].Each(max(from, all[i].Base), fn); err != nil {
			return err
		}
	}
	return nil
}
