package batch

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// maxNames bounds how many names of headers a Reader keeps as strings.
const maxNames = 256

// Reader reads batches of records, one after the other. The zero value is ready. What Record gives aliases the message, or the reader's
// own buffer where the body was packed, and is valid until the next Reset. A kept Reader allocates nothing once it has grown.
type Reader struct {
	h      Header
	cols   columns
	raw    []byte
	names  map[string]string
	unpack inflater
}

// Reset takes a whole message, checks both CRCs, inflates it under the limits and checks every column. After an error the reader is empty.
// A control batch gives ErrKind: ParseHeader tells it beforehand. A batch that compaction has emptied has Len 0.
func (r *Reader) Reset(msg []byte) error {
	r.h, r.cols = Header{}, columns{}
	h, err := ParseHeader(msg)
	if err != nil {
		return err
	}
	if h.Kind == Control {
		return fmt.Errorf("%w: a control batch has no records", ErrKind)
	}
	if err := CheckBody(msg); err != nil {
		return err
	}
	if h.IsGap() {
		r.h = h
		return checkGap(msg)
	}
	seg, at := segment(msg[framingBytes:]), HeaderBytes-framingBytes
	var cols columns
	if h.Kind == Packed {
		packed, err := seg.list(at, byteElements)
		if err != nil {
			return err
		}
		r.raw = slices.Grow(r.raw[:0], int(h.RawSize))[:h.RawSize]
		if err := r.unpack.inflate(h.Codec, r.raw, packed); err != nil {
			return err
		}
		err = cols.load(r.raw, 0, &h)
		if err != nil {
			return err
		}
	} else if err := cols.load(seg, at, &h); err != nil {
		return err
	}
	if err := cols.loadRouting(seg, at, &h); err != nil {
		return err
	}
	r.h, r.cols = h, cols
	return nil
}

// Header gives the fixed words.
func (r *Reader) Header() Header { return r.h }

// Len gives the number of records.
func (r *Reader) Len() int { return int(r.h.RecordCount) }

// Offset gives the offset of record i.
func (r *Reader) Offset(i int) uint64 {
	if r.cols.offsetDeltas != nil {
		return r.h.BaseOffset + uint64(binary.LittleEndian.Uint32(r.cols.offsetDeltas[4*i:]))
	}
	return r.h.BaseOffset + uint64(i)
}

// KeyHash gives the routing column's hash of record i; ok is false where the batch has no such column.
func (r *Reader) KeyHash(i int) (hash uint64, ok bool) {
	if r.cols.keyHashes == nil {
		return 0, false
	}
	return binary.LittleEndian.Uint64(r.cols.keyHashes[8*i:]), true
}

// Record fills into with record i, 0 ≤ i < Len. It reuses the room of into.Headers.
func (r *Reader) Record(i int, into *Record) {
	c := &r.cols
	into.Value = c.values.at(i)
	into.Key = nil
	if c.keys.ends != nil {
		into.Key = c.keys.at(i)
	}
	into.Timestamp = r.h.FirstTimestamp
	if c.timestamps != nil {
		into.Timestamp += int64(binary.LittleEndian.Uint64(c.timestamps[8*i:]))
	}
	into.DeliverAt, into.Priority = 0, 0
	if c.deliverAt != nil {
		into.DeliverAt = int64(binary.LittleEndian.Uint64(c.deliverAt[8*i:]))
	}
	if c.priorities != nil {
		into.Priority = c.priorities[i]
	}
	into.Headers = into.Headers[:0]
	if c.headerEnds != nil {
		r.headers(i, into)
	}
}

func (r *Reader) headers(i int, into *Record) {
	c := &r.cols
	from, to := between(c.headerEnds, i)
	for j := from; j < to; j++ {
		into.Headers = append(into.Headers, RecordHeader{Key: r.name(c.headerKeys.at(j)), Value: c.headerVals.at(j)})
	}
}

// name makes a string of a header's key, once for each of the usual ones.
func (r *Reader) name(p []byte) string {
	if s, ok := r.names[string(p)]; ok {
		return s
	}
	s := string(p)
	if len(r.names) < maxNames {
		if r.names == nil {
			r.names = make(map[string]string)
		}
		r.names[s] = s
	}
	return s
}

// Detach hands the buffer of inflated columns over to what Record gave: that stays valid after the next Reset, as long as the message
// does. The next packed batch is inflated into a new one.
func (r *Reader) Detach() { r.raw = nil }
