package batch_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

func seeds(f *testing.F) {
	files, err := filepath.Glob("testdata/v1/*.batch")
	if err != nil || len(files) == 0 {
		f.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		msg, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(msg)
		f.Add(msg[:len(msg)/2])
	}
	f.Add(whole(f, batch.None))
}

// bounded fails the test where a decoder takes more time or memory than an input justifies. extra is what the header may ask for.
func bounded(t *testing.T, input, extra int, decode func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	decode()
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if n, limit := int(after.TotalAlloc-before.TotalAlloc), 4*input+extra+1<<20; n > limit {
		t.Fatalf("%d bytes allocated for an input of %d, limit %d", n, input, limit)
	}
	if took > 2*time.Second { // 100 ms on an idle machine; fuzzing shares it
		t.Fatalf("took %s for %d bytes", took, input)
	}
}

// framed makes arbitrary bytes into something that the checksums do not stop.
func framed(data []byte) []byte {
	msg := append([]byte{}, data...)
	for len(msg) < batch.MinBytes || len(msg)%8 != 0 {
		msg = append(msg, 0)
	}
	if len(msg) > batch.MaxBytes {
		msg = msg[:batch.MaxBytes]
	}
	binary.LittleEndian.PutUint32(msg, 0)
	binary.LittleEndian.PutUint32(msg[4:], uint32(len(msg)-8)/8)
	binary.LittleEndian.PutUint64(msg[8:], 20<<32|5<<48)
	binary.LittleEndian.PutUint32(msg[16:], 0x31425153)
	binary.LittleEndian.PutUint16(msg[20:], 1)
	return reseal(msg)
}

func FuzzParseHeader(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, msg := range [][]byte{data, framed(data)} {
			h, err := batch.ParseHeader(msg)
			if err != nil {
				continue
			}
			if size, err := batch.PeekSize(msg); err != nil || size != h.Size || size > batch.MaxBytes {
				t.Fatalf("size %d and %d: %v", size, h.Size, err)
			}
			if h.NextOffset() <= h.BaseOffset || h.NextOffset() > 1<<63 {
				t.Fatalf("next offset %d after %d", h.NextOffset(), h.BaseOffset)
			}
			if h.RecordCount > h.RawSize/4 || h.RawSize > batch.MaxRawBytes {
				t.Fatalf("%d records in %d bytes", h.RecordCount, h.RawSize)
			}
			// A stamp keeps it valid, and only changes what it says.
			stamped := append([]byte{}, msg[:batch.HeaderBytes]...)
			batch.Stamp(stamped, batch.Stamps{BaseOffset: 5, Epoch: 6})
			again, err := batch.ParseHeader(stamped)
			if err != nil || again.BodyCRC != h.BodyCRC || again.BaseOffset != 5 || again.RecordCount != h.RecordCount {
				t.Fatalf("after a stamp: %+v, %v", again, err)
			}
		}
	})
}

func FuzzReader(f *testing.F) {
	seeds(f)
	var r batch.Reader // kept, as callers do; what one input leaves behind must not show in the next
	for codec := batch.None; codec <= batch.Zstd; codec++ {
		if err := r.Reset(whole(f, codec)); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, msg := range [][]byte{data, framed(data)} {
			var records []batch.Record
			var err error
			extra := 0
			if h, err := batch.ParseHeader(msg); err == nil {
				extra = int(h.RawSize) + 2<<20 // the buffer, and what a zstd decoder makes for a new kind of block
			}
			bounded(t, len(msg), extra, func() {
				if err = r.Reset(msg); err == nil {
					var rec batch.Record
					for i := range r.Len() {
						r.Record(i, &rec)
						_ = r.Offset(i)
					}
				}
			})
			if err != nil {
				if r.Len() != 0 {
					t.Fatal("records after an error")
				}
				continue
			}
			if records, err = read(&r, msg); err != nil {
				t.Fatalf("accepted once, then not: %v", err)
			}
			// Accepted ⇒ it can be said again, and reads the same.
			b := batch.Builder{Limit: batch.MaxBytes}
			for _, rec := range records {
				if err := b.Add(rec); err != nil {
					return // larger in our layout than in theirs
				}
			}
			msg, err := b.Build(nil, batch.BuildOptions{})
			if err != nil {
				return
			}
			again, err := read(&r, msg)
			if err != nil || !reflect.DeepEqual(records, again) {
				t.Fatalf("built again: %v\n%s", err, cmp.Diff(records, again))
			}
		}
	})
}

func FuzzReadControl(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, msg := range [][]byte{data, framed(data)} {
			bounded(t, len(msg), 0, func() {
				control, err := batch.ReadControl(msg)
				if err != nil {
					return
				}
				useControl(control)
			})
		}
	})
}

// useControl touches what a broker touches: errors are fine, panics are not.
func useControl(control batchcapnp.Control) {
	switch control.Which() {
	case batchcapnp.Control_Which_epochStart:
		if start, err := control.EpochStart(); err == nil {
			if members, err := start.Members(); err == nil && members.Len() < 100 {
				for i := range members.Len() {
					_, _ = members.At(i).Replica()
				}
			}
		}
	case batchcapnp.Control_Which_seal:
		if seal, err := control.Seal(); err == nil {
			_, _ = seal.Sha256()
		}
	case batchcapnp.Control_Which_tierCommit:
		if commit, err := control.TierCommit(); err == nil {
			if segments, err := commit.Segments(); err == nil && segments.Len() > 0 {
				_, _ = segments.At(0).Key()
			}
		}
	}
}

// FuzzRoundTrip makes records of arbitrary bytes: what comes out is what went in, with every codec.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), []byte("header"), int64(5), int64(-5), uint8(3))
	f.Add([]byte(nil), []byte{}, []byte(nil), int64(0), int64(0), uint8(0))
	var b batch.Builder
	var r batch.Reader
	f.Fuzz(func(t *testing.T, key, value, header []byte, t0, t1 int64, shape uint8) {
		records := []batch.Record{
			{Value: value, Timestamp: t0},
			{Key: key, Value: header, Timestamp: t1, Headers: []batch.RecordHeader{{Key: string(header), Value: value}}},
			{Timestamp: t0, DeliverAt: t1, Priority: shape},
		}
		if shape&1 != 0 {
			records[0], records[1] = records[1], records[0]
		}
		b.Reset()
		for _, rec := range records {
			if err := b.Add(rec); err != nil {
				return
			}
		}
		msg, err := b.Build(nil, batch.BuildOptions{Codec: batch.Codec(shape >> 1 & 3), KeyHashes: shape&8 != 0})
		if err != nil {
			t.Fatalf("build what was added: %v", err)
		}
		got, err := read(&r, msg)
		if err != nil {
			t.Fatalf("read what was built: %v", err)
		}
		for i := range records {
			records[i] = copyRecord(records[i])
		}
		if !reflect.DeepEqual(records, got) {
			t.Fatal(cmp.Diff(records, got))
		}
	})
}
