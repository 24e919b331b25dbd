package batch

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// BuildOptions are what a batch says about itself beside its records.
type BuildOptions struct {
	ProducerID, BaseSequence uint64
	DedupeKey                Key128
	MapVersion               uint32 // 0 = explicit partition
	Codec                    Codec
	KeyHashes                bool // write the routing column; the hash of a null key is 0
	// MaxBytes bounds the message; 0 = MaxBytes of the format.
	MaxBytes int
	// OffsetDeltas is for compaction alone: one entry a record, strictly increasing; the batch is flagged as rewritten.
	OffsetDeltas []uint32
}

// Build appends one whole unstamped message to dst. The builder keeps its records: Reset it when they are no longer needed. Where
// compression does not make the message smaller it is left out. *TooLargeError: the message exceeds MaxBytes.
func (b *Builder) Build(dst []byte, o BuildOptions) ([]byte, error) {
	if b.n == 0 {
		return dst, ErrEmpty
	}
	h := Header{
		RecordCount: uint32(b.n), LastOffsetDelta: uint32(b.n - 1), FirstTimestamp: b.first, MaxTimestamp: b.max,
		ProducerID: o.ProducerID, BaseSequence: o.BaseSequence, DedupeKey: o.DedupeKey, MapVersion: o.MapVersion,
	}
	if o.OffsetDeltas != nil {
		if err := checkDeltas(o.OffsetDeltas, b.n); err != nil {
			return dst, err
		}
		h.LastOffsetDelta, h.Flags = o.OffsetDeltas[b.n-1], FlagRewritten
	}
	raw := b.shape().raw()
	if raw > MaxRawBytes {
		return dst, &TooLargeError{What: "batch", Size: raw, Limit: MaxRawBytes}
	}
	h.RawSize = uint32(raw)

	start := len(dst)
	out := slices.Grow(dst, MinBytes+raw+b.routingBytes(&o))[:start+MinBytes]
	clear(out[start:])
	out, err := b.appendBody(out, start, &h, o.Codec)
	if err != nil {
		return dst, err
	}
	out = b.appendRouting(out, start, &o)
	limit := o.MaxBytes
	if limit <= 0 || limit > MaxBytes {
		limit = MaxBytes
	}
	if size := len(out) - start; size > limit {
		return dst, &TooLargeError{What: "batch", Size: size, Limit: limit}
	}
	h.put(out[start:])
	return out, nil
}

func checkDeltas(deltas []uint32, n int) error {
	if len(deltas) != n {
		return corrupt("%d offset deltas for %d records", len(deltas), n)
	}
	for i := 1; i < n; i++ {
		if deltas[i] <= deltas[i-1] {
			return corrupt("offset delta %d is not above the one before", i)
		}
	}
	return nil
}

func (b *Builder) routingBytes(o *BuildOptions) int {
	size := b.shape().routing() + pad(4*len(o.OffsetDeltas))
	if o.KeyHashes {
		size += 8 * b.n
	}
	return size
}

// appendBody writes the body and its pointer, and says in h which kind it became.
func (b *Builder) appendBody(out []byte, start int, h *Header, codec Codec) ([]byte, error) {
	if codec > Zstd {
		return out, fmt.Errorf("build batch: unknown codec %d", uint16(codec))
	}
	at, body := start+HeaderBytes, len(out)
	if codec != None {
		b.raw = binary.LittleEndian.AppendUint64(b.raw[:0], recordsRoot)
		b.raw = b.appendRecords(slices.Grow(b.raw, int(h.RawSize)))
		room := b.deflate.bound(codec, len(b.raw))
		out = slices.Grow(out, pad(room))
		n, err := b.deflate.compress(codec, out[body:body+room], b.raw)
		if err != nil {
			return out, fmt.Errorf("build batch: %w", err)
		}
		if n > 0 && pad(n) < len(b.raw)-pointerBytes {
			out = out[:body+n]
			putList(out, at, body, byteElements, n)
			h.Kind, h.Codec = Packed, codec
			return padded(out, body), nil
		}
		// It would not be smaller: the columns go in as they are, without their root pointer.
		out = append(out[:body], b.raw[pointerBytes:]...)
	} else {
		out = b.appendRecords(out)
	}
	words := uint32((body - at - pointerBytes) / 8)
	binary.LittleEndian.PutUint64(out[at:], uint64(words<<2)|recordsRoot)
	h.Kind, h.Codec = Records, None
	return out, nil
}

// appendRecords writes the Records struct and its columns. The pointers are relative, so the bytes are the same in a message and in a
// packed segment.
func (b *Builder) appendRecords(out []byte) []byte {
	at := len(out)
	out = append(out, make([]byte, recordsBytes)...)
	slot := func(i int) int { return at + i*pointerBytes }
	out = appendList(out, slot(0), fourByteElements, b.n, b.values.ends)
	out = appendBytes(out, slot(1), b.values.data)
	out = appendNulls(out, slot(2), b.values.nulls, b.n)
	if len(b.keys.ends) > 0 {
		out = appendList(out, slot(3), fourByteElements, b.n, b.keys.ends)
		out = appendBytes(out, slot(4), b.keys.data)
		out = appendNulls(out, slot(5), b.keys.nulls, b.n)
	}
	if b.unequal {
		out = appendList(out, slot(6), eightByteElements, b.n, b.timestamps)
	}
	if len(b.headerEnds) > 0 {
		out = appendList(out, slot(7), fourByteElements, b.n, b.headerEnds)
		out = appendList(out, slot(8), fourByteElements, b.headers, b.headerKeys.ends)
		out = appendBytes(out, slot(9), b.headerKeys.data)
		out = appendList(out, slot(10), fourByteElements, b.headers, b.headerVals.ends)
		out = appendBytes(out, slot(11), b.headerVals.data)
		out = appendNulls(out, slot(12), b.headerVals.nulls, b.headers)
	}
	return out
}

// appendRouting writes the routing columns behind the body.
func (b *Builder) appendRouting(out []byte, start int, o *BuildOptions) []byte {
	slot := func(i int) int { return start + HeaderBytes + i*pointerBytes }
	if o.OffsetDeltas != nil {
		target := len(out)
		for _, d := range o.OffsetDeltas {
			out = binary.LittleEndian.AppendUint32(out, d)
		}
		putList(out, slot(1), target, fourByteElements, b.n)
		out = padded(out, target)
	}
	if o.KeyHashes {
		target := len(out)
		for i := range b.n {
			out = binary.LittleEndian.AppendUint64(out, b.keyHash(i))
		}
		putList(out, slot(2), target, eightByteElements, b.n)
	}
	if len(b.deliverAt) > 0 {
		out = appendList(out, slot(3), eightByteElements, b.n, b.deliverAt)
	}
	if len(b.priorities) > 0 {
		out = appendList(out, slot(4), byteElements, b.n, b.priorities)
	}
	return out
}

// keyHash gives what the routing column says of a record.
func (b *Builder) keyHash(i int) uint64 {
	if len(b.keys.ends) == 0 {
		return 0
	}
	if key := (column{ends: b.keys.ends, data: b.keys.data, nulls: b.keys.nulls}).at(i); key != nil {
		return KeyHash(key)
	}
	return 0
}
