package batch

import (
	"encoding/binary"
	"math/bits"
)

// column is a checked column of byte strings.
type column struct{ ends, data, nulls []byte }

// at gives entry i: nil = null, never nil otherwise.
func (c column) at(i int) []byte {
	if i/8 < len(c.nulls) && c.nulls[i/8]>>(i%8)&1 != 0 {
		return nil
	}
	from, to := between(c.ends, i)
	return c.data[from:to:to]
}

// between gives entry i of cumulative ends as a half-open range.
func between(ends []byte, i int) (from, to int) {
	if i > 0 {
		from = int(binary.LittleEndian.Uint32(ends[4*i-4:]))
	}
	return from, int(binary.LittleEndian.Uint32(ends[4*i:]))
}

// columns are those of a batch; nil = absent.
type columns struct {
	values, keys           column
	timestamps             []byte
	headerEnds             []byte
	headerKeys, headerVals column

	offsetDeltas, keyHashes, deliverAt, priorities []byte
}

// table reads the lists of the Records struct and counts what they take.
type table struct {
	seg      segment
	from     int
	pointers int
	left     int // of the raw size
	err      error
}

func (t *table) list(slot int, size elementSize) []byte {
	if t.err != nil || slot >= t.pointers {
		return nil
	}
	list, err := t.seg.list(t.from+slot*pointerBytes, size)
	if err != nil {
		t.err = err
		return nil
	}
	// Lists that overlap would let a small message hold more than its raw size says.
	if t.left -= pad(len(list)); t.left < 0 {
		t.err = corrupt("columns take more than the raw size")
		return nil
	}
	return list
}

// load reads and checks the columns behind the struct pointer at byte `at`.
func (c *columns) load(seg segment, at int, h *Header) error {
	from, count, err := seg.pointers(at)
	if err != nil {
		return err
	}
	t := table{seg: seg, from: from, pointers: count, left: int(h.RawSize) - pointerBytes - count*pointerBytes}
	n := int(h.RecordCount)
	c.values = column{t.list(0, fourByteElements), t.list(1, byteElements), t.list(2, byteElements)}
	c.keys = column{t.list(3, fourByteElements), t.list(4, byteElements), t.list(5, byteElements)}
	c.timestamps = t.list(6, eightByteElements)
	c.headerEnds = t.list(7, fourByteElements)
	c.headerKeys = column{ends: t.list(8, fourByteElements), data: t.list(9, byteElements)}
	c.headerVals = column{t.list(10, fourByteElements), t.list(11, byteElements), t.list(12, byteElements)}
	if t.err != nil {
		return t.err
	}
	if err := c.values.check("value", n, MaxRawBytes); err != nil {
		return err
	}
	if c.keys.ends != nil {
		if err := c.keys.check("key", n, MaxKeyBytes); err != nil {
			return err
		}
	} else if c.keys.data != nil || c.keys.nulls != nil {
		return corrupt("keys without ends")
	}
	if err := c.checkTimestamps(n, h); err != nil {
		return err
	}
	return c.checkHeaders(n)
}

// check holds: n ends, non-decreasing, none longer than longest, the last at the end of the bytes; nulls for all, each of length zero.
func (c *column) check(what string, n, longest int) error {
	if len(c.ends) != 4*n {
		return corrupt("%d %s ends for %d", len(c.ends)/4, what, n)
	}
	if c.data == nil {
		c.data = c.ends[:0] // an entry that is not null must not come out nil
	}
	var last uint32
	for p := c.ends; len(p) >= 4; p = p[4:] {
		end := binary.LittleEndian.Uint32(p)
		if end < last || end-last > uint32(longest) {
			return corrupt("a %s ends at %d, the one before at %d", what, end, last)
		}
		last = end
	}
	if int64(last) != int64(len(c.data)) {
		return corrupt("%s ends say %d bytes, there are %d", what, last, len(c.data))
	}
	if c.nulls == nil {
		return nil
	}
	if len(c.nulls) < (n+7)/8 {
		return corrupt("%d bytes of %s nulls for %d", len(c.nulls), what, n)
	}
	for i := range (n + 7) / 8 {
		for b := c.nulls[i]; b != 0; b &= b - 1 {
			at := 8*i + bits.TrailingZeros8(b)
			if at >= n {
				return corrupt("a %s null behind the last", what)
			}
			if from, to := between(c.ends, at); from != to {
				return corrupt("%s %d is null and has %d bytes", what, at, to-from)
			}
		}
	}
	return nil
}

func (c *columns) checkTimestamps(n int, h *Header) error {
	if c.timestamps == nil {
		return nil
	}
	if len(c.timestamps) != 8*n {
		return corrupt("%d timestamps for %d records", len(c.timestamps)/8, n)
	}
	for p := c.timestamps; len(p) >= 8; p = p[8:] {
		delta := int64(binary.LittleEndian.Uint64(p))
		if delta < -2*MaxTimestamp || delta > 2*MaxTimestamp-1 {
			return corrupt("timestamp delta %d is out of range", delta)
		}
		if t := h.FirstTimestamp + delta; !validTimestamp(t) || t > h.MaxTimestamp {
			return corrupt("timestamp %d is out of range or above the highest", t)
		}
	}
	return nil
}

func (c *columns) checkHeaders(n int) error {
	if c.headerEnds == nil {
		if c.headerKeys.ends != nil || c.headerKeys.data != nil ||
			c.headerVals.ends != nil || c.headerVals.data != nil || c.headerVals.nulls != nil {
			return corrupt("headers without header ends")
		}
		return nil
	}
	if len(c.headerEnds) != 4*n {
		return corrupt("%d header ends for %d records", len(c.headerEnds)/4, n)
	}
	var total uint32
	for p := c.headerEnds; len(p) >= 4; p = p[4:] {
		end := binary.LittleEndian.Uint32(p)
		if end < total || end-total > MaxHeaders {
			return corrupt("headers end at %d, those before at %d", end, total)
		}
		total = end
	}
	if int64(total)*4 > int64(len(c.headerKeys.ends)) {
		return corrupt("%d header keys for %d headers", len(c.headerKeys.ends)/4, total)
	}
	if err := c.headerKeys.check("header key", int(total), MaxHeaderKeyBytes); err != nil {
		return err
	}
	return c.headerVals.check("header value", int(total), MaxRawBytes)
}

// loadRouting reads the routing columns, whose pointers follow the body's.
func (c *columns) loadRouting(seg segment, at int, h *Header) error {
	n := int(h.RecordCount)
	var err error
	routing := func(slot int, what string, size elementSize) []byte {
		if err != nil {
			return nil
		}
		var list []byte
		if list, err = seg.list(at+slot*pointerBytes, size); err != nil {
			return nil
		}
		if list != nil && len(list) != n*size.bytes() {
			err = corrupt("%d %s for %d records", len(list)/size.bytes(), what, n)
		}
		return list
	}
	c.offsetDeltas = routing(1, "offset deltas", fourByteElements)
	c.keyHashes = routing(2, "key hashes", eightByteElements)
	c.deliverAt = routing(3, "delivery times", eightByteElements)
	c.priorities = routing(4, "priorities", byteElements)
	if err != nil {
		return err
	}
	for p := c.deliverAt; len(p) >= 8; p = p[8:] {
		if t := int64(binary.LittleEndian.Uint64(p)); t < 0 || t > MaxTimestamp {
			return corrupt("delivery time %d is out of range", t)
		}
	}
	return c.checkOffsets(n, h)
}

// checkOffsets holds: offsets grow, and the last record has the last offset; compaction may have taken that one away.
func (c *columns) checkOffsets(n int, h *Header) error {
	last := uint32(n - 1)
	for i := 0; i < len(c.offsetDeltas); i += 4 {
		delta := binary.LittleEndian.Uint32(c.offsetDeltas[i:])
		if i > 0 && delta <= last {
			return corrupt("offset delta %d follows %d", delta, last)
		}
		last = delta
	}
	if last > h.LastOffsetDelta || last < h.LastOffsetDelta && h.Flags&FlagRewritten == 0 {
		return corrupt("the last record is at offset delta %d, the header says %d", last, h.LastOffsetDelta)
	}
	return nil
}
