package batch_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/seedqueue/sq/proto/batch"
)

func isKind(err error) bool { return errors.Is(err, batch.ErrKind) }

var le = binary.LittleEndian

// whole is a message that has every column. Layout: 176 header, 5 pointers, then the Records struct of 13 pointers at 216.
func whole(t testing.TB, codec batch.Codec) []byte {
	records := make([]batch.Record, 20)
	for i := range records {
		records[i] = batch.Record{
			Key: fmt.Appendf(nil, "key %d", i), Value: fmt.Appendf(nil, "value %d", i), Timestamp: int64(1000 + i), DeliverAt: 5, Priority: 1,
			Headers: []batch.RecordHeader{{Key: "a", Value: []byte("1")}, {Key: "b"}},
		}
	}
	records[3].Key, records[4].Value = nil, nil
	deltas := make([]uint32, len(records))
	for i := range deltas {
		deltas[i] = uint32(2 * i)
	}
	return build(t, records, batch.BuildOptions{Codec: codec, KeyHashes: true, OffsetDeltas: deltas})
}

const (
	atSlots   = batch.HeaderBytes // body, offsetDeltas, keyHashes, deliverAt, priorities
	atColumns = batch.MinBytes    // 13 pointers
)

// column gives where the list behind the pointer at p begins.
func column(msg []byte, p int) int { return p + 8 + 8*int(int32(le.Uint32(msg[p:]))>>2) }

// TestHostile changes a good message, makes the CRCs right again, and wants the typed error.
func TestHostile(t *testing.T) {
	u16 := func(at int, v uint16) func([]byte) { return func(m []byte) { le.PutUint16(m[at:], v) } }
	u32 := func(at int, v uint32) func([]byte) { return func(m []byte) { le.PutUint32(m[at:], v) } }
	u64 := func(at int, v uint64) func([]byte) { return func(m []byte) { le.PutUint64(m[at:], v) } }
	// in changes a word inside the list behind a pointer.
	in := func(pointer, at int, v uint32) func([]byte) {
		return func(m []byte) { le.PutUint32(m[column(m, pointer)+at:], v) }
	}
	slot := func(i int) int { return atColumns + 8*i }
	for _, c := range []struct {
		name string
		do   func([]byte)
		want error
	}{
		{"two segments", u32(0, 1), batch.ErrPrefix},
		{"2^32 segments", u32(0, 0xffffffff), batch.ErrPrefix},
		{"lying size", u32(4, 0xffffffff), batch.ErrPrefix},
		{"size below the header", u32(4, 20), batch.ErrPrefix},
		{"size is one word more", func(m []byte) { le.PutUint32(m[4:], le.Uint32(m[4:])+1) }, batch.ErrShort},
		{"root with offset", u64(8, 4|20<<32|5<<48), batch.ErrPrefix},
		{"far root", u64(8, 2), batch.ErrPrefix},
		{"magic", u32(16, 0x12345678), batch.ErrMagic},
		{"version 0", u16(20, 0), batch.ErrVersion},
		{"version 2", u16(20, 2), batch.ErrVersion},
		{"unknown flag", u16(22, 3), batch.ErrCorrupt},
		{"offset above the limit", u64(32, batch.MaxOffset+1), batch.ErrCorrupt},
		{"segment base above base", u64(24, 1), batch.ErrCorrupt},
		{"append time", u64(48, 1<<63), batch.ErrCorrupt},
		{"no record", u32(80, 0), batch.ErrCorrupt},
		{"too many records", u32(80, 0xffffffff), batch.ErrCorrupt},
		{"more records than ends", u32(80, 21), batch.ErrCorrupt},
		{"fewer records than ends", u32(80, 19), batch.ErrCorrupt},
		{"last delta below count", u32(84, 18), batch.ErrCorrupt},
		{"last delta below the last record's", u32(84, 37), batch.ErrCorrupt},
		{"first timestamp", u64(88, 1<<62), batch.ErrCorrupt},
		{"first timestamp above the highest", u64(88, 2000), batch.ErrCorrupt},
		{"highest timestamp below", u64(96, 1000), batch.ErrCorrupt},
		{"producer epoch", u32(112, 1), batch.ErrCorrupt},
		{"codec of records", u16(116, 1), batch.ErrCorrupt},
		{"unknown codec", u16(116, 4), batch.ErrCorrupt},
		{"unknown kind", u16(118, 3), batch.ErrCorrupt},
		{"control with records", u16(118, 2), batch.ErrCorrupt},
		{"packed without codec", u16(118, 1), batch.ErrCorrupt},
		{"sequence", u64(120, 1<<63), batch.ErrCorrupt},
		{"raw size 0", u32(148, 0), batch.ErrCorrupt},
		{"raw size beyond the limit", u32(148, batch.MaxRawBytes+1), batch.ErrCorrupt},
		{"raw size beyond the message", u32(148, 1<<20), batch.ErrCorrupt},
		{"raw size below the columns", func(m []byte) { le.PutUint32(m[148:], le.Uint32(m[148:])-8) }, batch.ErrCorrupt},
		{"schema id", u32(152, 1), batch.ErrCorrupt},
		{"encryption key id", u32(156, 1), batch.ErrCorrupt},
		{"reserved word", u32(168, 1), batch.ErrCorrupt},

		{"no body", u64(atSlots, 0), batch.ErrCorrupt},
		{"body is a list", u64(atSlots, 1|2<<32|8<<35), batch.ErrCorrupt},
		{"body is far", u64(atSlots, 2), batch.ErrCorrupt},
		{"body is a capability", u64(atSlots, 3), batch.ErrCorrupt},
		{"body has data words", u64(atSlots, 4<<2|1<<32|13<<48), batch.ErrCorrupt},
		{"body has 14 pointers", u64(atSlots, 4<<2|14<<48), batch.ErrCorrupt},
		{"body behind the end", u64(atSlots, 1<<20<<2|13<<48), batch.ErrCorrupt},
		{"body before the start", u64(atSlots, 0xffff0000|13<<48), batch.ErrCorrupt},
		{"body without columns", u64(atSlots, 4<<2), batch.ErrCorrupt},
		{"no value ends", u64(slot(0), 0), batch.ErrCorrupt},
		{"value ends far", u64(slot(0), 2|5<<32), batch.ErrCorrupt},
		{"value ends are a struct", u64(slot(0), 1<<32), batch.ErrCorrupt},
		{"value ends of 8 bytes", u64(slot(0), 12<<2|1|5<<32|20<<35), batch.ErrCorrupt},
		{"value ends of composites", u64(slot(0), 12<<2|1|7<<32|20<<35), batch.ErrCorrupt},
		{"value ends of nothing, 2^29", u64(slot(0), 12<<2|1|0<<32|(1<<29-1)<<35), batch.ErrCorrupt},
		{"value ends of 2^29", u64(slot(0), 12<<2|1|4<<32|(1<<29-1)<<35), batch.ErrCorrupt},
		{"value ends behind the end", u64(slot(0), 0x7ffffff<<2|1|4<<32|20<<35), batch.ErrCorrupt},
		{"value ends fall", in(slot(0), 4, 3), batch.ErrCorrupt},
		{"value end beyond the values", in(slot(0), 4*19, 1<<30), batch.ErrCorrupt},
		{"bytes behind the last value", in(slot(0), 4*19, 140), batch.ErrCorrupt},
		{"no values", u64(slot(1), 0), batch.ErrCorrupt},
		{"a null with bytes", in(slot(2), 0, 0x11), batch.ErrCorrupt},
		{"a null behind the last", in(slot(2), 0, 0x800010), batch.ErrCorrupt},
		{"short nulls", func(m []byte) { le.PutUint64(m[slot(2):], le.Uint64(m[slot(2):])-1<<35) }, batch.ErrCorrupt},
		{"keys without ends", u64(slot(3), 0), batch.ErrCorrupt},
		{"key ends fall", in(slot(3), 40, 1), batch.ErrCorrupt},
		{"short timestamps", func(m []byte) { le.PutUint64(m[slot(6):], le.Uint64(m[slot(6):])-1<<35) }, batch.ErrCorrupt},
		{"timestamp overflow", in(slot(6), 12, 0x7fffffff), batch.ErrCorrupt},
		{"timestamp underflow", in(slot(6), 12, 0x80000000), batch.ErrCorrupt},
		{"headers without ends", u64(slot(7), 0), batch.ErrCorrupt},
		{"more headers than keys", in(slot(7), 4*19, 41), batch.ErrCorrupt},
		{"fewer headers than keys", in(slot(7), 4*19, 39), batch.ErrCorrupt},
		{"header ends fall", in(slot(7), 4, 1), batch.ErrCorrupt},
		{"header key ends fall", in(slot(8), 8, 0), batch.ErrCorrupt},
		{"no header key ends", u64(slot(8), 0), batch.ErrCorrupt},
		{"header value end", in(slot(10), 4*39, 21), batch.ErrCorrupt},
		{"header null with bytes", in(slot(12), 0, 0xaaaaaaab), batch.ErrCorrupt},
		{"offset deltas fall", in(atSlots+8, 8, 1), batch.ErrCorrupt},
		{"short offset deltas", func(m []byte) { le.PutUint64(m[atSlots+8:], le.Uint64(m[atSlots+8:])-1<<35) }, batch.ErrCorrupt},
		{"key hashes of 4 bytes", func(m []byte) { le.PutUint64(m[atSlots+16:], le.Uint64(m[atSlots+16:])-1<<32) }, batch.ErrCorrupt},
		{"delivery time", in(atSlots+24, 4, 0x80000000), batch.ErrCorrupt},
		{"priorities far", u64(atSlots+32, 2), batch.ErrCorrupt},
		{"overlapping columns", func(m []byte) {
			// keys, which are short, become all bytes behind them: every list stays inside the segment.
			copy(m[slot(4):], []byte{1, 0, 0, 0, 2, 0, 0, 0})
			le.PutUint32(m[slot(4)+4:], 2|uint32(len(m)-slot(4)-8)<<3)
		}, batch.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			msg := whole(t, batch.None)
			c.do(msg)
			var r batch.Reader
			if err := r.Reset(reseal(msg)); !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if r.Len() != 0 {
				t.Fatal("the reader is not empty after an error")
			}
		})
	}
}

// Each byte that is not what was written is noticed: no bit of a message is outside a checksum.
func TestEveryBitIsCovered(t *testing.T) {
	msg := whole(t, batch.None)
	var r batch.Reader
	must(t, r.Reset(msg))
	for bit := range 8 * len(msg) {
		msg[bit/8] ^= 1 << (bit % 8)
		if err := r.Reset(msg); err == nil {
			t.Fatalf("bit %d of byte %d is not covered", bit%8, bit/8)
		}
		msg[bit/8] ^= 1 << (bit % 8)
	}
	for cut := range msg {
		if err := r.Reset(msg[:cut]); !errors.Is(err, batch.ErrShort) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	if err := r.Reset(append(msg, 0)); err == nil {
		t.Fatal("a byte behind the message is taken")
	}
}

// packedWith replaces the packed bytes of a message.
func packedWith(t *testing.T, codec batch.Codec, packed []byte) []byte {
	t.Helper()
	msg := build(t, []batch.Record{{Value: make([]byte, 1000)}}, batch.BuildOptions{Codec: codec})
	out := append([]byte{}, msg[:batch.MinBytes]...)
	le.PutUint64(out[atSlots:], 4<<2|1|2<<32|uint64(len(packed))<<35)
	out = append(out, packed...)
	for len(out)%8 != 0 {
		out = append(out, 0)
	}
	le.PutUint32(out[4:], uint32(len(out)-8)/8)
	return reseal(out)
}

func TestHostilePacked(t *testing.T) {
	msg := build(t, []batch.Record{{Value: make([]byte, 1000)}}, batch.BuildOptions{Codec: batch.Zstd})
	size := int(le.Uint64(msg[atSlots:]) >> 35)
	good := msg[batch.MinBytes : batch.MinBytes+size]
	h, err := batch.ParseHeader(msg)
	must(t, err)
	raw := make([]byte, h.RawSize)
	encoder, err := zstd.NewWriter(nil)
	must(t, err)
	again := func(p []byte, more ...byte) []byte { return append(append([]byte{}, p...), more...) }
	bomb := encoder.EncodeAll(make([]byte, 64<<20), nil)
	for _, c := range []struct {
		name   string
		codec  batch.Codec
		packed []byte
		want   error
	}{
		{"the good one", batch.Zstd, good, nil},
		{"empty", batch.Zstd, nil, batch.ErrInflate},
		{"cut", batch.Zstd, good[:len(good)-1], batch.ErrInflate},
		{"a byte more", batch.Zstd, again(good, 0), batch.ErrInflate},
		{"two frames", batch.Zstd, again(good, good...), batch.ErrInflate},
		{"an empty frame behind", batch.Zstd, again(good, 0x28, 0xb5, 0x2f, 0xfd, 0x20, 0, 1, 0, 0), batch.ErrInflate},
		{"skippable frame before", batch.Zstd, again([]byte{0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0}, good...), batch.ErrInflate},
		{"a bomb", batch.Zstd, bomb, batch.ErrInflate},
		{"a byte too many inside", batch.Zstd, encoder.EncodeAll(append(raw, 0), nil), batch.ErrInflate},
		{"content size 2^64-1", batch.Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 255, 255, 255, 255, 255, 255, 255, 255, 1, 0, 0}, batch.ErrInflate},
		{"window of 2^41", batch.Zstd, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xc0, 0xff, 0, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0}, batch.ErrInflate},
		{"zeros inside", batch.Zstd, encoder.EncodeAll(raw, nil), batch.ErrCorrupt},
		{"s2 claims more", batch.S2, s2.Encode(nil, make([]byte, 4<<20)), batch.ErrInflate},
		{"s2 claims 2^32", batch.S2, []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, batch.ErrInflate},
		{"s2 nonsense", batch.S2, again([]byte{byte(h.RawSize)&0x7f | 0x80, byte(h.RawSize >> 7)}, 0xff, 0xff, 0xff), batch.ErrInflate},
		{"s2 zeros inside", batch.S2, s2.Encode(nil, raw), batch.ErrCorrupt},
		{"lz4 nonsense", batch.LZ4, []byte{0xff, 0xff, 0xff, 0xff}, batch.ErrInflate},
		{"lz4 too short", batch.LZ4, []byte{0x10, 'a'}, batch.ErrInflate},
	} {
		t.Run(c.name, func(t *testing.T) {
			var r batch.Reader
			err := r.Reset(packedWith(t, c.codec, c.packed))
			if c.want == nil && err != nil || !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
		})
	}
}

// A control body is only bytes to the header; what is wrong inside is an error of the accessor or of ReadControl, never a panic.
func TestHostileControl(t *testing.T) {
	msg := build(t, []batch.Record{{Value: []byte("v")}}, batch.BuildOptions{})
	le.PutUint16(msg[118:], uint16(batch.Control))
	le.PutUint32(msg[80:], 0)
	le.PutUint32(msg[84:], 0)
	le.PutUint32(msg[148:], 0)
	for name, body := range map[string]uint64{"null": 0, "far": 2, "list": 1 | 2<<32 | 8<<35, "behind the end": 1<<20<<2 | 1<<32} {
		le.PutUint64(msg[atSlots:], body)
		if _, err := batch.ReadControl(reseal(msg)); !errors.Is(err, batch.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
