package batch_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/proto/batch"
)

// reseal makes both CRCs right again after a test has changed bytes, as a hostile writer would.
func reseal(msg []byte) []byte {
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(msg[160:], crc32.Checksum(msg[batch.HeaderBytes:], table))
	binary.LittleEndian.PutUint32(msg[172:], crc32.Checksum(msg[:172], table))
	return msg
}

// build makes a message or fails the test.
func build(t testing.TB, records []batch.Record, o batch.BuildOptions) []byte {
	t.Helper()
	b := batch.Builder{Limit: batch.MaxBytes}
	for _, r := range records {
		if err := b.Add(r); err != nil {
			t.Fatalf("add: %v", err)
		}
	}
	msg, err := b.Build(nil, o)
	if err != nil {
		t.Fatalf("build: %v", err)
	}
	return msg
}

// read gives all records of a message, copied.
func read(r *batch.Reader, msg []byte) ([]batch.Record, error) {
	if err := r.Reset(msg); err != nil {
		return nil, err
	}
	records := make([]batch.Record, r.Len())
	for i := range records {
		var rec batch.Record
		r.Record(i, &rec)
		records[i] = copyRecord(rec)
	}
	return records, nil
}

// copyRecord keeps the difference between nil and empty, and drops an empty list of headers.
func copyRecord(r batch.Record) batch.Record {
	clone := func(p []byte) []byte {
		if p == nil {
			return nil
		}
		return append([]byte{}, p...)
	}
	out := r
	out.Key, out.Value, out.Headers = clone(r.Key), clone(r.Value), nil
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, batch.RecordHeader{Key: h.Key, Value: clone(h.Value)})
	}
	return out
}

// randomRecords draws shapes, not only bytes: columns that begin late, nulls, empties, equal times.
func randomRecords(rng *rand.Rand) []batch.Record {
	bytes := func(n int) []byte {
		p := make([]byte, n)
		for i := range p {
			p[i] = byte('a' + rng.IntN(1+rng.IntN(26)))
		}
		return p
	}
	maybe := func(odds, n int) []byte {
		switch rng.IntN(odds) {
		case 0:
			return nil
		case 1:
			return []byte{}
		default:
			return bytes(rng.IntN(n))
		}
	}
	records := make([]batch.Record, 1+rng.IntN(200))
	keys, headers, times, delays := rng.IntN(2) == 0, rng.IntN(3) == 0, rng.IntN(2) == 0, rng.IntN(4) == 0
	for i := range records {
		r := &records[i]
		r.Value = maybe(3+rng.IntN(20), 120)
		r.Timestamp = 1_700_000_000_000_000
		if times {
			r.Timestamp += rng.Int64N(2_000_000) - 1_000_000
		}
		if keys && rng.IntN(3) == 0 {
			r.Key = maybe(4, 20)
		}
		if headers && rng.IntN(4) == 0 {
			for range 1 + rng.IntN(3) {
				r.Headers = append(r.Headers, batch.RecordHeader{Key: string(bytes(rng.IntN(8))), Value: maybe(4, 30)})
			}
		}
		if delays && rng.IntN(5) == 0 {
			r.DeliverAt, r.Priority = rng.Int64N(1<<50), uint8(rng.IntN(256))
		}
	}
	return records
}

func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var b batch.Builder
	var r batch.Reader
	for round := range 400 {
		records := randomRecords(rng)
		b.Reset()
		for i, rec := range records {
			if err := b.Add(rec); err != nil {
				t.Fatalf("round %d: add %d: %v", round, i, err)
			}
		}
		for codec := batch.None; codec <= batch.Zstd; codec++ {
			prefix := []byte("before")
			o := batch.BuildOptions{
				ProducerID: 7, BaseSequence: uint64(round), DedupeKey: batch.Key128{Hi: 1, Lo: 2}, MapVersion: 3,
				Codec: codec, KeyHashes: round%2 == 0,
			}
			out, err := b.Build(prefix, o)
			if err != nil {
				t.Fatalf("round %d: build: %v", round, err)
			}
			msg := out[len(prefix):]
			got, err := read(&r, msg)
			if err != nil {
				t.Fatalf("round %d, %s: read: %v", round, codec, err)
			}
			want := make([]batch.Record, len(records))
			for i := range records {
				want[i] = copyRecord(records[i])
			}
			if !reflect.DeepEqual(want, got) { // cmp.Diff alone takes seconds here
				t.Fatalf("round %d, %s: records differ (-want +got):\n%s", round, codec, cmp.Diff(want, got))
			}
			checkHeader(t, r.Header(), records, o, len(msg))
			if codec == batch.None && !o.KeyHashes && b.Size() != len(msg) {
				t.Fatalf("round %d: Size says %d, the message has %d bytes", round, b.Size(), len(msg))
			}
			for i, rec := range records {
				hash, ok := r.KeyHash(i)
				if ok != o.KeyHashes {
					t.Fatalf("round %d: key hash %d: ok = %v", round, i, ok)
				}
				if ok && rec.Key != nil && hash != batch.KeyHash(rec.Key) {
					t.Fatalf("round %d: key hash %d is %#x", round, i, hash)
				}
			}
		}
	}
}

func checkHeader(t *testing.T, h batch.Header, records []batch.Record, o batch.BuildOptions, size int) {
	t.Helper()
	highest := int64(math.MinInt64)
	for _, r := range records {
		highest = max(highest, r.Timestamp)
	}
	want := batch.Header{
		RecordCount: uint32(len(records)), LastOffsetDelta: uint32(len(records) - 1),
		FirstTimestamp: records[0].Timestamp, MaxTimestamp: highest,
		ProducerID: o.ProducerID, BaseSequence: o.BaseSequence, DedupeKey: o.DedupeKey, MapVersion: o.MapVersion,
		RawSize: h.RawSize, Codec: h.Codec, Kind: h.Kind, BodyCRC: h.BodyCRC, HeaderCRC: h.HeaderCRC, Size: size,
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Fatalf("header differs (-want +got):\n%s", diff)
	}
	if err := h.CheckPublish(); err != nil {
		t.Fatalf("a producer's own batch: %v", err)
	}
}

func TestCompressionIsLeftOutWhereItDoesNotHelp(t *testing.T) {
	noise := make([]byte, 4000)
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	for codec := batch.S2; codec <= batch.Zstd; codec++ {
		plain := build(t, []batch.Record{{Value: noise}}, batch.BuildOptions{})
		tried := build(t, []batch.Record{{Value: noise}}, batch.BuildOptions{Codec: codec})
		if h, err := batch.ParseHeader(tried); err != nil || len(tried) > len(plain) || len(tried) == len(plain) && h.Kind != batch.Records {
			t.Errorf("%s: noise of %d bytes is stored in %d as %s: %v", codec, len(plain), len(tried), h.Kind, err)
		}
		h, err := batch.ParseHeader(build(t, []batch.Record{{Value: make([]byte, 4000)}}, batch.BuildOptions{Codec: codec}))
		if err != nil || h.Kind != batch.Packed || h.Codec != codec || h.Size > 500 {
			t.Errorf("%s: 4000 zeros: %+v, %v", codec, h, err)
		}
	}
}

func TestBuilderLimits(t *testing.T) {
	tooLarge := func(what string) func(error) bool {
		return func(err error) bool {
			e, ok := errors.AsType[*batch.TooLargeError](err)
			return ok && e.What == what && e.Size > e.Limit
		}
	}
	is := func(target error) func(error) bool { return func(err error) bool { return errors.Is(err, target) } }
	headers := make([]batch.RecordHeader, batch.MaxHeaders+1)
	for _, c := range []struct {
		name   string
		record batch.Record
		bad    func(error) bool
	}{
		{"key", batch.Record{Key: make([]byte, batch.MaxKeyBytes+1)}, tooLarge("key")},
		{"largest key", batch.Record{Key: make([]byte, batch.MaxKeyBytes)}, nil},
		{"headers", batch.Record{Headers: headers}, tooLarge("headers")},
		{"most headers", batch.Record{Headers: headers[1:]}, nil},
		{"header key", batch.Record{Headers: []batch.RecordHeader{{Key: string(make([]byte, batch.MaxHeaderKeyBytes+1))}}}, tooLarge("header key")},
		{"value", batch.Record{Value: make([]byte, batch.DefaultMaxBytes)}, tooLarge("record")},
		{"huge value", batch.Record{Value: make([]byte, batch.MaxRawBytes+1)}, tooLarge("record")},
		{"huge header", batch.Record{Headers: []batch.RecordHeader{{Value: make([]byte, batch.MaxRawBytes+1)}}}, tooLarge("record")},
		{"time", batch.Record{Timestamp: batch.MaxTimestamp + 1}, is(batch.ErrCorrupt)},
		{"early time", batch.Record{Timestamp: -batch.MaxTimestamp - 1}, is(batch.ErrCorrupt)},
		{"delay", batch.Record{DeliverAt: -1}, is(batch.ErrCorrupt)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b batch.Builder
			err := b.Add(c.record)
			if c.bad == nil {
				if err != nil || b.Len() != 1 {
					t.Fatalf("add: %v, %d records", err, b.Len())
				}
				return
			}
			if !c.bad(err) || b.Len() != 0 || b.Size() != 0 {
				t.Fatalf("add: %v, %d records, %d bytes", err, b.Len(), b.Size())
			}
		})
	}
}

// The builder is full exactly when the next record would go beyond its limit, whatever columns that record would begin.
func TestBuilderFillsExactly(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 300 {
		b := batch.Builder{Limit: 600 + rng.IntN(6000)}
		var records []batch.Record
		for {
			all := randomRecords(rng)
			r := all[rng.IntN(len(all))]
			err := b.Add(r)
			if err == nil {
				records = append(records, r)
				continue
			}
			if len(records) == 0 {
				break
			}
			if !errors.Is(err, batch.ErrFull) {
				t.Fatalf("round %d: add: %v", round, err)
			}
			fits, over := build(t, records, batch.BuildOptions{}), build(t, append(records, r), batch.BuildOptions{})
			if len(fits) > b.Limit || len(over) <= b.Limit {
				t.Fatalf("round %d: limit %d: %d bytes without, %d with the record", round, b.Limit, len(fits), len(over))
			}
			break
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	var b batch.Builder
	if _, err := b.Build(nil, batch.BuildOptions{}); !errors.Is(err, batch.ErrEmpty) {
		t.Errorf("no record: %v", err)
	}
	for i := range 3 {
		if err := b.Add(batch.Record{Value: fmt.Append(nil, i)}); err != nil {
			t.Fatal(err)
		}
	}
	dst := []byte("kept")
	out, err := b.Build(dst, batch.BuildOptions{MaxBytes: 200})
	if e, ok := errors.AsType[*batch.TooLargeError](err); !ok || e.What != "batch" || string(out) != "kept" {
		t.Errorf("beyond MaxBytes: %v, %q", err, out)
	}
	for _, deltas := range [][]uint32{{1, 2}, {1, 1, 2}, {3, 2, 4}} {
		if _, err := b.Build(nil, batch.BuildOptions{OffsetDeltas: deltas}); !errors.Is(err, batch.ErrCorrupt) {
			t.Errorf("offset deltas %v: %v", deltas, err)
		}
	}
	if _, err := b.Build(nil, batch.BuildOptions{Codec: 9}); err == nil {
		t.Error("codec 9 is taken")
	}
}

func TestOffsets(t *testing.T) {
	records := []batch.Record{{Value: []byte("a")}, {Value: []byte("b")}, {Value: []byte("c")}}
	msg := build(t, records, batch.BuildOptions{OffsetDeltas: []uint32{0, 4, 9}})
	batch.Stamp(msg, batch.Stamps{BaseOffset: 100, SegmentBase: 90})
	var r batch.Reader
	if err := r.Reset(msg); err != nil {
		t.Fatal(err)
	}
	got := []uint64{r.Offset(0), r.Offset(1), r.Offset(2), r.Header().NextOffset()}
	if diff := cmp.Diff([]uint64{100, 104, 109, 110}, got); diff != "" {
		t.Error(diff)
	}
	if err := r.Header().CheckPublish(); err == nil {
		t.Error("a producer may send a rewritten, stamped batch")
	}
	// Compaction may take the last record away and keep the span.
	binary.LittleEndian.PutUint32(msg[84:], 20)
	if err := r.Reset(reseal(msg)); err != nil || r.Header().NextOffset() != 121 {
		t.Errorf("gap at the end: %v, next %d", err, r.Header().NextOffset())
	}
	binary.LittleEndian.PutUint16(msg[22:], 0)
	if err := r.Reset(reseal(msg)); !errors.Is(err, batch.ErrCorrupt) {
		t.Errorf("gap at the end of a batch that is not rewritten: %v", err)
	}
}

func TestStamp(t *testing.T) {
	msg := build(t, []batch.Record{{Value: []byte("v")}}, batch.BuildOptions{ProducerID: 9, BaseSequence: 4})
	h, err := batch.ParseHeader(msg)
	if err != nil || !h.Unstamped() {
		t.Fatalf("fresh: %+v, %v", h, err)
	}
	s := batch.Stamps{SegmentBase: 1, BaseOffset: 2, Epoch: 3, AppendTime: 4, Chain: 5, CommitHint: 6, PartitionTag: 7}
	batch.Stamp(msg[:batch.HeaderBytes], s)
	got, err := batch.ParseHeader(msg[:batch.HeaderBytes])
	if err != nil {
		t.Fatal(err)
	}
	want := h
	want.SegmentBase, want.BaseOffset, want.Epoch, want.AppendTime, want.Chain, want.CommitHint, want.PartitionTag = 1, 2, 3, 4, 5, 6, 7
	want.HeaderCRC = got.HeaderCRC
	if diff := cmp.Diff(want, got); diff != "" || got.Unstamped() {
		t.Error(diff)
	}
	if err := batch.CheckBody(msg); err != nil {
		t.Errorf("the body after a stamp: %v", err)
	}
	for i, one := range []batch.Stamps{{SegmentBase: 1, BaseOffset: 1}, {Epoch: 1}, {AppendTime: 1}, {Chain: 1}, {CommitHint: 1}, {PartitionTag: 1}} {
		batch.Stamp(msg, one)
		if h, err := batch.ParseHeader(msg); err != nil || h.Unstamped() {
			t.Errorf("stamp %d counts as unstamped: %v", i, err)
		}
	}
}

func TestEach(t *testing.T) {
	one := build(t, []batch.Record{{Value: []byte("one")}}, batch.BuildOptions{})
	two := build(t, []batch.Record{{Value: []byte("two, and longer")}}, batch.BuildOptions{})
	body := append(append([]byte{}, one...), two...)
	for cut := 0; cut <= len(body); cut++ {
		var got [][]byte
		var last error
		for msg, err := range batch.Each(body[:cut]) {
			if last = err; err == nil {
				got = append(got, msg)
			}
		}
		whole := cut == 0 || cut == len(one) || cut == len(body)
		if whole != (last == nil) || !whole && !errors.Is(last, batch.ErrShort) {
			t.Fatalf("cut at %d: %v", cut, last)
		}
		wantLen := 0
		if cut >= len(one) {
			wantLen++
		}
		if cut == len(body) {
			wantLen++
		}
		if len(got) != wantLen {
			t.Fatalf("cut at %d: %d batches", cut, len(got))
		}
	}
	for range batch.Each(body) {
		break // an early end is no panic
	}
}

// A Reader's and a Builder's buffers stay; records cost nothing.
func TestNoAllocationPerRecord(t *testing.T) {
	records := make([]batch.Record, 1000)
	for i := range records {
		records[i] = batch.Record{
			Key: fmt.Appendf(nil, "key-%d", i), Value: make([]byte, 100), Timestamp: int64(i),
			Headers: []batch.RecordHeader{{Key: "trace", Value: []byte("x")}},
		}
	}
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		var b batch.Builder
		var dst []byte
		var r batch.Reader
		var rec batch.Record
		round := func() {
			b.Reset()
			for i := range records {
				if err := b.Add(records[i]); err != nil {
					t.Fatal(err)
				}
			}
			var err error
			if dst, err = b.Build(dst[:0], batch.BuildOptions{Codec: codec}); err != nil {
				t.Fatal(err)
			}
			if err := r.Reset(dst); err != nil {
				t.Fatal(err)
			}
			for i := range r.Len() {
				r.Record(i, &rec)
			}
		}
		round()
		if n := testing.AllocsPerRun(20, round); n > 4 {
			t.Errorf("%s: %v allocations for 1000 records", codec, n)
		}
	}
}

// A message that enters another session keeps its body and everything else.
func TestRenumber(t *testing.T) {
	msg := build(t, []batch.Record{{Value: []byte("v")}}, batch.BuildOptions{ProducerID: 9, BaseSequence: 4, MapVersion: 3})
	before, err := batch.ParseHeader(msg)
	must(t, err)
	batch.Renumber(msg, 10, 0)
	got, err := batch.ParseHeader(msg)
	must(t, err)
	must(t, batch.CheckBody(msg))
	want := before
	want.ProducerID, want.BaseSequence, want.HeaderCRC = 10, 0, got.HeaderCRC
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
