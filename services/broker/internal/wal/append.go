package wal

import (
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
)

// Append writes stamped batches that continue the log: all of them or, if it fails, none. They are written, not persisted. A batch whose
// segmentBase is its own base offset ends the open segment and starts a new one. The bytes are the caller's again when it returns.
//
// A batch that does not continue the log is a mistake of the caller: fault.Internal, nothing is written. A full disk is fault.DiskFull and
// leaves the log as it was. A log with an unreadable end is fault.Corrupt.
func (l *Log) Append(batches [][]byte) error {
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if err := l.usable("append"); err != nil {
		return err
	}
	if l.broken {
		return fault.Errorf(fault.Corrupt, "append at offset %d: the end of the log cannot be read", l.tail.End)
	}
	if err := l.check(batches); err != nil {
		return &fault.Error{Kind: fault.Internal, Op: "append", Err: err}
	}
	before := l.tail.End
	defer l.forgetFrames()
	if err := l.write(); err != nil {
		if err = l.fail(err); l.Err() == nil {
			err = l.undo(before, err)
		}
		return fault.Wrap("append", err)
	}
	return nil
}

// forgetFrames gives the messages back to the caller, and memory that only a large append needs.
func (l *Log) forgetFrames() {
	clear(l.frames)
	if cap(l.frames) > keptFrames {
		l.frames = nil
	}
}

// check reads the batches into frames and sees that they continue the log.
func (l *Log) check(batches [][]byte) error {
	l.frames = l.frames[:0]
	end, chain, base := l.tail.End, l.tail.Chain, l.tail.SegmentBase
	epoch, appendTime := l.tail.LastEpoch, l.tail.LastAppendTime
	for _, msg := range batches {
		h, err := batch.ParseHeader(msg)
		if err != nil {
			return err
		}
		if h.SegmentBase == h.BaseOffset {
			base = end
		}
		switch {
		case h.Size != len(msg):
			return fmt.Errorf("batch of %d bytes in %d", h.Size, len(msg))
		case h.BaseOffset != uint64(end):
			return fmt.Errorf("batch has offset %d, the log ends at %d", h.BaseOffset, end)
		case h.Chain != chain:
			return fmt.Errorf("batch %d has chain %#x, expected %#x", h.BaseOffset, h.Chain, chain)
		case h.PartitionTag != l.tag:
			return fmt.Errorf("batch %d has partition tag %#x, the log has %#x", h.BaseOffset, h.PartitionTag, l.tag)
		case h.SegmentBase != uint64(base):
			return fmt.Errorf("batch %d is of segment %d, the open one is %d", h.BaseOffset, h.SegmentBase, base)
		case h.Epoch < uint64(epoch):
			return fmt.Errorf("batch %d has epoch %d, the one before %d", h.BaseOffset, h.Epoch, epoch)
		case h.AppendTime < appendTime:
			return fmt.Errorf("batch %d has append time %d, the one before %d", h.BaseOffset, h.AppendTime, appendTime)
		}
		end, chain = partition.Offset(h.NextOffset()), batch.NextChain(msg)
		epoch, appendTime = partition.Epoch(h.Epoch), h.AppendTime
		l.frames = append(l.frames, segment.Frame{Header: h, Message: msg, Next: chain})
	}
	return nil
}

// write carries the frames into their segments, run by run.
func (l *Log) write() error {
	for rest := l.frames; len(rest) > 0; {
		if err := l.ready(&rest[0].Header); err != nil {
			return err
		}
		n, size := 1, int64(rest[0].Header.Size)
		for n < len(rest) && rest[n].Header.SegmentBase == rest[0].Header.SegmentBase && size+int64(rest[n].Header.Size) <= runBytes {
			size += int64(rest[n].Header.Size)
			n++
		}
		if l.open.Unsynced()+size > l.limits.UnsyncedBytes {
			if err := l.Sync(); err != nil {
				return err
			}
		}
		if err := l.open.Append(rest[:n]); err != nil {
			return err
		}
		s, last := l.open.Summary(), &rest[n-1]
		l.tail = Tail{
			End: s.End, Chain: last.Next, LastEpoch: s.Epoch, LastAppendTime: s.LastAppendTime,
			SegmentBase: s.Base, SegmentBytes: s.Size, SegmentRecords: s.HasRecords, SegmentTime: s.FirstAppendTime,
		}
		l.publish()
		rest = rest[n:]
	}
	return nil
}

// ready has the segment open that a batch belongs to, and nothing behind its end.
func (l *Log) ready(h *batch.Header) error {
	if l.overhang {
		if err := l.cutOverhang(); err != nil {
			return err
		}
	}
	starts := h.SegmentBase == h.BaseOffset
	if l.open != nil && uint64(l.open.Summary().Base) != h.SegmentBase {
		if l.open.Summary().Size == 0 {
			// An empty file that recovery found: the batch goes on in the segment before.
			if err := l.open.Remove(); err != nil {
				return err
			}
			l.open = nil
		} else if err := l.closeOpen(); err != nil {
			return err
		}
	}
	switch {
	case l.open != nil:
		return nil
	case starts:
		o, err := segment.Create(l.files, l.dir, l.tail.End, l.tag, l.tail.Chain, l.lastSize())
		if err != nil {
			return err
		}
		l.open = o
		return nil
	default:
		return l.reopen()
	}
}

// lastSize is how large the segment before was: the next one is likely to be as large. 0 without one.
func (l *Log) lastSize() int64 {
	if n := len(l.closed); n > 0 {
		return l.closed[n-1].Summary().Size
	}
	return 0
}

// reopen makes the last closed segment grow again.
func (l *Log) reopen() error {
	last := len(l.closed) - 1
	o, err := l.closed[last].Reopen()
	if err != nil {
		return err
	}
	l.open, l.closed = o, l.closed[:last:last]
	l.relist()
	return nil
}

// cutOverhang takes away the suspect bytes behind the end, now that the log goes on without them.
func (l *Log) cutOverhang() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.open.Rewind(); err != nil {
		return err
	}
	if err := l.open.Sync(l.open.Summary().Size); err != nil {
		return err
	}
	l.overhang = false
	return nil
}

// undo takes back what a failed append has written, and gives its error, or why that could not be done.
func (l *Log) undo(before partition.Offset, cause error) error {
	if l.open != nil && fault.Is(cause, fault.DiskFull) {
		if err := l.open.Rewind(); err != nil {
			return l.poisonBy(err)
		}
	}
	if l.tail.End > before {
		if err := l.cut(before); err != nil {
			return l.poisonBy(err)
		}
	}
	l.retail(segment.Place{Offset: l.tail.End, Chain: l.tail.Chain})
	l.publish()
	return cause
}

// Sync makes everything durable that was written when it was called. If it fails, the log is poisoned: what the file holds is not known.
func (l *Log) Sync() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if err := l.usable("sync"); err != nil {
		return err
	}
	return l.syncFile()
}

// syncFile is Sync with syncing held.
func (l *Log) syncFile() error {
	v := l.view.Load()
	mark := l.mark.Load()
	if v.tail.End <= mark.Offset || v.file == nil || v.broken {
		return nil
	}
	err := v.file.Sync(v.tail.SegmentBytes)
	if err != nil && mutant.Is(mutant.RetryFsync) {
		err = v.file.Sync(v.tail.SegmentBytes)
	}
	if err != nil {
		return l.fail(err)
	}
	l.setMark(mark.Generation, v.tail)
	l.keepIndex(v.open)
	return nil
}

// keepIndex writes the index of an open segment now and then: all that it covers is durable. Called with syncing held, so that no cut comes
// between. It may fail: an index is only as good as its checksum.
func (l *Log) keepIndex(open *source) {
	if open.Base != l.indexed.base {
		l.indexed.base, l.indexed.size = open.Base, 0
	}
	l.indexed.size = min(l.indexed.size, open.Size) // it may have been cut
	if open.Size-l.indexed.size < l.limits.IndexBytes {
		return
	}
	x, err := open.Index()
	if err == nil {
		err = segment.WriteIndex(l.fs, l.dir, x)
	}
	if err != nil {
		l.log.Warn("cannot write an index, it will be made again", "segment", uint64(open.Base), "err", err)
	}
	l.indexed.size = open.Size
}
