package batch_test

import (
	"testing"
	"time"

	"github.com/seedqueue/sq/proto/batch"
)

// The vectors of docs/formats/batch.md. They may never change.
func TestNamedFunctions(t *testing.T) {
	header := make([]byte, batch.HeaderBytes)
	for i := range header {
		header[i] = byte(i)
	}
	const hi, lo = 0x0011223344556677, 0x8899aabbccddeeff
	for _, c := range []struct {
		name      string
		got, want uint64
	}{
		{"KeyHash of empty", batch.KeyHash([]byte{}), 0xef46db3751d8e999},
		{"KeyHash of c42", batch.KeyHash([]byte("c42")), 0x9a429a66c6127504},
		{"KeyHash of 64 bytes", batch.KeyHash(header[:64]), 0xf7c67301db6713f0},
		{"NextChain of zeros", batch.NextChain(make([]byte, batch.HeaderBytes)), 0xb2641aba6475ed94},
		{"NextChain of 0..175", batch.NextChain(header), 0xe5e66f379577912d},
		{"NextChain of a longer message", batch.NextChain(append(header, 1, 2, 3)), batch.NextChain(header)},
		{"PartitionTag 0", batch.PartitionTag(hi, lo, 0), 0x3f83fea68cf68e54},
		{"PartitionTag 7", batch.PartitionTag(hi, lo, 7), 0xd5c03fb4da519a43},
		{"DedupeKeyOf hi", batch.DedupeKeyOf("order-1").Hi, 0x0bafe22156d2698c},
		{"DedupeKeyOf lo", batch.DedupeKeyOf("order-1").Lo, 0x143b86040446d366},
		{"HashFrom 1 of 3", batch.HashFrom(1, 3), 0x5555555555555556},
		{"HashFrom 2 of 3", batch.HashFrom(2, 3), 0xaaaaaaaaaaaaaaab},
		{"HashFrom 3 of 4", batch.HashFrom(3, 4), 0xc000000000000000},
		{"Micros", uint64(batch.Micros(time.Date(2026, 11, 30, 12, 0, 0, 123456789, time.UTC))), 1796040000123456},
		{"Micros before 1970", uint64(-batch.Micros(time.Unix(-1, 999_999_001))), 1},
	} {
		if c.got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, c.got, c.want)
		}
	}
	if !batch.DedupeKeyOf("").IsZero() || batch.DedupeKeyOf("order-1").IsZero() {
		t.Error("only the empty key has a zero hash")
	}
	if got := batch.Time(1796040000123456); !got.Equal(time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC)) {
		t.Errorf("Time: %s", got)
	}
}

// Ranges cover the hash space without a gap: both rules say the same at every border.
func TestHashRanges(t *testing.T) {
	for _, partitions := range []int{1, 2, 3, 7, 64, 1000, 99_991} {
		for p := range partitions {
			from := batch.HashFrom(p, partitions)
			if got := batch.PartitionOfHash(from, partitions); got != p {
				t.Fatalf("%d of %d begins at %#x, which belongs to %d", p, partitions, from, got)
			}
			if p > 0 {
				if got := batch.PartitionOfHash(from-1, partitions); got != p-1 {
					t.Fatalf("%d of %d: %#x belongs to %d", p, partitions, from-1, got)
				}
			}
		}
		if got := batch.PartitionOfHash(^uint64(0), partitions); got != partitions-1 {
			t.Fatalf("the last hash of %d belongs to %d", partitions, got)
		}
	}
}

func TestCodecNames(t *testing.T) {
	for c := batch.None; c <= batch.Zstd; c++ {
		if got, err := batch.ParseCodec(c.String()); err != nil || got != c {
			t.Errorf("%s: %v, %v", c, got, err)
		}
	}
	if _, err := batch.ParseCodec("gzip"); err == nil {
		t.Error("gzip is known")
	}
}
