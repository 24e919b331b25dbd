package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sort"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// Stride is the distance in bytes between two entries of an index: a lookup walks the headers of at most this much.
const Stride = 64 << 10

// The layout of an index; docs/formats/segment.md has the table.
const (
	indexMagic       = 0x31585153 // "SQX1"
	indexVersion     = 1
	indexHeaderBytes = 80
	indexEntryBytes  = 24
	flagHasRecords   = 1 << 0
	// MaxIndexBytes bounds an encoded index: the entries of a 2 GiB segment.
	MaxIndexBytes = indexHeaderBytes + (2<<30/Stride+1)*indexEntryBytes
)

// ErrIndex is wrapped by every error about the bytes of an index.
var ErrIndex = errors.New("segment index is not valid")

// Summary is what an index says about its segment as a whole. Times are microseconds since 1970.
type Summary struct {
	Base, End                       partition.Offset
	Size                            int64  // bytes of the frames of [Base, End)
	Tag                             uint64 // partition tag
	Chain                           uint64 // chain word of the batch at End; 0 where the last batch is rewritten and does not tell
	Epoch                           partition.Epoch
	FirstAppendTime, LastAppendTime int64
	HasRecords                      bool // at least one batch is not a control batch
}

// Entry is a batch that an index knows: its base offset, where it begins, and its append time in microseconds since 1970.
type Entry struct {
	Offset     partition.Offset
	Position   int64
	AppendTime int64
}

// Index finds a batch by offset or append time without reading the segment. Entries grow in all three fields (append time may repeat); the
// first one, if there is one, is the segment's first batch.
type Index struct {
	Summary
	Entries []Entry
}

// Add takes in the next batch of the segment, which begins at the summary's Size; next is the chain word of the batch behind it.
func (x *Index) Add(h *batch.Header, next uint64) {
	if last := len(x.Entries) - 1; last < 0 || x.Size-x.Entries[last].Position >= Stride {
		x.addEntry(h)
	}
	if x.End == x.Base {
		x.FirstAppendTime = h.AppendTime
	}
	x.End = partition.Offset(h.NextOffset())
	x.Size += int64(h.Size)
	x.Chain = next
	x.Epoch = partition.Epoch(h.Epoch)
	x.LastAppendTime = h.AppendTime
	x.HasRecords = x.HasRecords || !h.IsControl()
}

func (x *Index) addEntry(h *batch.Header) {
	x.Entries = append(x.Entries, Entry{partition.Offset(h.BaseOffset), x.Size, h.AppendTime})
}

// At gives the last entry whose offset is not above o; without one, the beginning of the segment.
func (x *Index) At(o partition.Offset) Entry {
	return x.entry(sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].Offset > o }) - 1)
}

// AtPosition gives the last entry that does not begin behind a position; without one, the beginning of the segment.
func (x *Index) AtPosition(position int64) Entry {
	return x.entry(sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].Position > position }) - 1)
}

// Before gives the last entry whose append time is below t; without one, the beginning of the segment. The first batch with an append time
// of t or later is not before it.
func (x *Index) Before(t int64) Entry {
	return x.entry(sort.Search(len(x.Entries), func(i int) bool { return x.Entries[i].AppendTime >= t }) - 1)
}

func (x *Index) entry(i int) Entry {
	if i < 0 {
		return Entry{Offset: x.Base, AppendTime: x.FirstAppendTime}
	}
	return x.Entries[i]
}

// AppendTo encodes the index behind dst.
func (x *Index) AppendTo(dst []byte) []byte {
	le := binary.LittleEndian
	from := len(dst)
	var flags uint16
	if x.HasRecords {
		flags |= flagHasRecords
	}
	dst = le.AppendUint32(dst, indexMagic)
	dst = le.AppendUint16(dst, indexVersion)
	dst = le.AppendUint16(dst, flags)
	dst = le.AppendUint64(dst, uint64(x.Base))
	dst = le.AppendUint64(dst, uint64(x.End))
	dst = le.AppendUint64(dst, uint64(x.Size))
	dst = le.AppendUint64(dst, x.Tag)
	dst = le.AppendUint64(dst, x.Chain)
	dst = le.AppendUint64(dst, uint64(x.Epoch))
	dst = le.AppendUint64(dst, uint64(x.FirstAppendTime))
	dst = le.AppendUint64(dst, uint64(x.LastAppendTime))
	dst = le.AppendUint32(dst, uint32(len(x.Entries)))
	dst = le.AppendUint32(dst, 0)
	for _, e := range x.Entries {
		dst = le.AppendUint64(dst, uint64(e.Offset))
		dst = le.AppendUint64(dst, uint64(e.Position))
		dst = le.AppendUint64(dst, uint64(e.AppendTime))
	}
	le.PutUint32(dst[from+indexHeaderBytes-4:], indexCRC(dst[from:]))
	return dst
}

// indexCRC covers everything but the checksum itself, the last word of the header.
func indexCRC(p []byte) uint32 {
	sum := crc32c(p[:indexHeaderBytes-4])
	return crc32.Update(sum, crc32.MakeTable(crc32.Castagnoli), p[indexHeaderBytes:])
}

// ParseIndex decodes a whole index and checks every rule that needs no segment.
func ParseIndex(p []byte) (*Index, error) {
	if len(p) < indexHeaderBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrIndex, len(p))
	}
	le := binary.LittleEndian
	if m, v := le.Uint32(p), le.Uint16(p[4:]); m != indexMagic || v != indexVersion {
		return nil, fmt.Errorf("%w: magic %#x, version %d", ErrIndex, m, v)
	}
	count := uint64(le.Uint32(p[72:]))
	if uint64(len(p)) != indexHeaderBytes+count*indexEntryBytes {
		return nil, fmt.Errorf("%w: %d bytes for %d entries", ErrIndex, len(p), count)
	}
	if got, want := indexCRC(p), le.Uint32(p[indexHeaderBytes-4:]); got != want {
		return nil, fmt.Errorf("%w: checksum is %#08x, says %#08x", ErrIndex, got, want)
	}
	x := &Index{
		Summary: Summary{
			Base:            partition.Offset(le.Uint64(p[8:])),
			End:             partition.Offset(le.Uint64(p[16:])),
			Size:            int64(le.Uint64(p[24:])),
			Tag:             le.Uint64(p[32:]),
			Chain:           le.Uint64(p[40:]),
			Epoch:           partition.Epoch(le.Uint64(p[48:])),
			FirstAppendTime: int64(le.Uint64(p[56:])),
			LastAppendTime:  int64(le.Uint64(p[64:])),
			HasRecords:      le.Uint16(p[6:])&flagHasRecords != 0,
		},
		Entries: make([]Entry, count),
	}
	for i := range x.Entries {
		e := p[indexHeaderBytes+i*indexEntryBytes:]
		x.Entries[i] = Entry{partition.Offset(le.Uint64(e)), int64(le.Uint64(e[8:])), int64(le.Uint64(e[16:]))}
	}
	if le.Uint16(p[6:])&^flagHasRecords != 0 {
		return nil, fmt.Errorf("%w: unknown flags", ErrIndex)
	}
	return x, x.check()
}

func (x *Index) check() error {
	empty := x.End == x.Base
	if x.End < x.Base || x.End > batch.MaxOffset || x.Size < 0 || empty != (x.Size == 0) || empty != (len(x.Entries) == 0) {
		return fmt.Errorf("%w: [%d, %d) in %d bytes with %d entries", ErrIndex, x.Base, x.End, x.Size, len(x.Entries))
	}
	if empty {
		return nil
	}
	before := Entry{Offset: x.Base, Position: 0, AppendTime: x.FirstAppendTime}
	if x.Entries[0] != before {
		return fmt.Errorf("%w: first entry %+v", ErrIndex, x.Entries[0])
	}
	for _, e := range x.Entries[1:] {
		if e.Offset <= before.Offset || e.Position <= before.Position || e.AppendTime < before.AppendTime {
			return fmt.Errorf("%w: entry %+v behind %+v", ErrIndex, e, before)
		}
		before = e
	}
	if before.Offset >= x.End || before.Position >= x.Size || before.AppendTime > x.LastAppendTime {
		return fmt.Errorf("%w: last entry %+v beyond the end", ErrIndex, before)
	}
	return nil
}

// crc32c is hardware work; MakeTable gives the same prepared table on every call.
func crc32c(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }
