package batch

import "encoding/binary"

// Builder collects records as columns and makes batches of them. The zero value is ready. It copies what it is given, and it keeps its
// buffers over Reset: no allocation a record once it has grown.
type Builder struct {
	// Limit bounds what Add lets in: the message without compression and without key hashes. 0 = DefaultMaxBytes; never above MaxBytes.
	// Change it only when Len is 0.
	Limit int

	n          int
	loose      int // never below Size; spares Add the exact sum as long as there is room
	values     spans
	keys       spans // ends stay empty until the first record with a key
	timestamps []byte
	first, max int64
	unequal    bool // timestamps differ
	headerEnds []byte
	headers    int
	headerKeys spans
	headerVals spans
	deliverAt  []byte // empty until the first that is not 0
	priorities []byte // empty until the first that is not 0

	raw     []byte // the segment to compress
	deflate deflater
}

// spans is a column of byte strings: cumulative ends, the bytes, and a bitmap of nulls (empty as long as there is none).
type spans struct{ ends, data, nulls []byte }

func (s *spans) reset() { s.ends, s.data, s.nulls = s.ends[:0], s.data[:0], s.nulls[:0] }

// add appends entry i.
func (s *spans) add(i int, p []byte) {
	if p == nil {
		for len(s.nulls) <= i/8 {
			s.nulls = append(s.nulls, 0)
		}
		s.nulls[i/8] |= 1 << (i % 8)
	}
	s.data = append(s.data, p...)
	s.ends = binary.LittleEndian.AppendUint32(s.ends, uint32(len(s.data)))
}

// Reset empties the builder.
func (b *Builder) Reset() {
	b.n, b.loose, b.headers, b.unequal = 0, 0, 0, false
	b.values.reset()
	b.keys.reset()
	b.headerKeys.reset()
	b.headerVals.reset()
	b.timestamps, b.headerEnds = b.timestamps[:0], b.headerEnds[:0]
	b.deliverAt, b.priorities = b.deliverAt[:0], b.priorities[:0]
}

// Len gives the number of records.
func (b *Builder) Len() int { return b.n }

// Size gives the bytes that Build would make now without compression and without key hashes. 0 if there is no record.
func (b *Builder) Size() int {
	if b.n == 0 {
		return 0
	}
	return b.shape().size()
}

func (b *Builder) limit() int {
	switch {
	case b.Limit <= 0:
		return DefaultMaxBytes
	case b.Limit > MaxBytes:
		return MaxBytes
	default:
		return b.Limit
	}
}

// Add appends a record. *TooLargeError: it can never be in a batch of this limit. ErrFull: not in this batch. ErrCorrupt: a timestamp
// that the format cannot hold. In all three cases nothing changed.
func (b *Builder) Add(r Record) error {
	if err := checkRecord(&r); err != nil {
		return err
	}
	if b.n == 0 {
		b.loose = MinBytes + emptyRawBytes + 16*pointerBytes // every column's padding
	}
	cost := b.cost(&r)
	if limit := b.limit(); b.loose+cost > limit {
		if size := b.shape().with(b, &r).size(); size > limit {
			if b.n > 0 {
				return ErrFull
			}
			return &TooLargeError{What: "record", Size: size, Limit: limit}
		}
	}
	if b.n == MaxRecords {
		return ErrFull
	}
	b.loose += cost
	b.values.add(b.n, r.Value)
	if r.Key != nil || len(b.keys.ends) > 0 {
		for i := len(b.keys.ends) / 4; i < b.n; i++ {
			b.keys.add(i, nil)
		}
		b.keys.add(b.n, r.Key)
	}
	if len(r.Headers) > 0 || len(b.headerEnds) > 0 {
		b.addHeaders(r.Headers)
	}
	b.addTimestamp(r.Timestamp)
	if r.DeliverAt != 0 || len(b.deliverAt) > 0 {
		b.deliverAt = zeroed(b.deliverAt, 8*b.n)
		b.deliverAt = binary.LittleEndian.AppendUint64(b.deliverAt, uint64(r.DeliverAt))
	}
	if r.Priority != 0 || len(b.priorities) > 0 {
		b.priorities = append(zeroed(b.priorities, b.n), r.Priority)
	}
	b.n++
	return nil
}

func (b *Builder) addTimestamp(t int64) {
	if b.n == 0 {
		b.first, b.max = t, t
	}
	b.unequal = b.unequal || t != b.first
	b.max = max(b.max, t)
	b.timestamps = binary.LittleEndian.AppendUint64(b.timestamps, uint64(t-b.first))
}

func (b *Builder) addHeaders(headers []RecordHeader) {
	b.headerEnds = zeroed(b.headerEnds, 4*b.n)
	for _, h := range headers {
		b.headerKeys.data = append(b.headerKeys.data, h.Key...)
		b.headerKeys.ends = binary.LittleEndian.AppendUint32(b.headerKeys.ends, uint32(len(b.headerKeys.data)))
		b.headerVals.add(b.headers, h.Value)
		b.headers++
	}
	b.headerEnds = binary.LittleEndian.AppendUint32(b.headerEnds, uint32(b.headers))
}

// zeroed fills a column that begins late with what its earlier records have.
func zeroed(p []byte, size int) []byte {
	for len(p) < size {
		p = append(p, 0)
	}
	return p
}

// cost gives an upper bound of what a record adds to Size. A column that begins late pays for the records before it.
func (b *Builder) cost(r *Record) int {
	cost := len(r.Value) + len(r.Key) + 4 + 8 + 1 // ends, timestamp, a bit of nulls
	if r.Key != nil || len(b.keys.ends) > 0 {
		cost += 5 * (b.n + 1 - len(b.keys.ends)/4)
	}
	if len(r.Headers) > 0 || len(b.headerEnds) > 0 {
		cost += 4 * (b.n + 1 - len(b.headerEnds)/4)
		for i := range r.Headers {
			cost += len(r.Headers[i].Key) + len(r.Headers[i].Value) + 9
		}
	}
	if r.DeliverAt != 0 || len(b.deliverAt) > 0 {
		cost += 8*(b.n+1) - len(b.deliverAt)
	}
	if r.Priority != 0 || len(b.priorities) > 0 {
		cost += b.n + 1 - len(b.priorities)
	}
	return cost
}

// checkRecord holds the limits that do not depend on the batch.
func checkRecord(r *Record) error {
	if len(r.Key) > MaxKeyBytes {
		return &TooLargeError{What: "key", Size: len(r.Key), Limit: MaxKeyBytes}
	}
	if len(r.Value) > MaxRawBytes { // so that no sum below overflows
		return &TooLargeError{What: "record", Size: len(r.Value), Limit: MaxRawBytes}
	}
	if len(r.Headers) > MaxHeaders {
		return &TooLargeError{What: "headers", Size: len(r.Headers), Limit: MaxHeaders}
	}
	for i := range r.Headers {
		if n := len(r.Headers[i].Key); n > MaxHeaderKeyBytes {
			return &TooLargeError{What: "header key", Size: n, Limit: MaxHeaderKeyBytes}
		}
		if n := len(r.Headers[i].Value); n > MaxRawBytes {
			return &TooLargeError{What: "record", Size: n, Limit: MaxRawBytes}
		}
	}
	if !validTimestamp(r.Timestamp) || r.DeliverAt < 0 || r.DeliverAt > MaxTimestamp {
		return corrupt("a timestamp is out of range")
	}
	return nil
}
