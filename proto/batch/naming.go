package batch

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"time"

	"github.com/cespare/xxhash/v2"
)

// PartitionTag ties a batch to its partition: xxhash64, seed 0, of the topic's UUID (16 bytes in RFC 4122 order, that is the halves
// big-endian) and the partition's index (u32 little-endian).
func PartitionTag(topicHi, topicLo uint64, partition uint32) uint64 {
	var p [20]byte
	binary.BigEndian.PutUint64(p[0:], topicHi)
	binary.BigEndian.PutUint64(p[8:], topicLo)
	binary.LittleEndian.PutUint32(p[16:], partition)
	return xxhash.Sum64(p[:])
}

// KeyHash gives the 64-bit hash that routes a key: xxhash64, seed 0. A null key has none: such records are not routed by key.
func KeyHash(key []byte) uint64 { return xxhash.Sum64(key) }

// DedupeKeyOf gives the 128 bits of an Idempotency-Key: the first 16 bytes of its SHA-256, as two big-endian halves. Zero only for "".
func DedupeKeyOf(s string) Key128 {
	if s == "" {
		return Key128{}
	}
	sum := sha256.Sum256([]byte(s))
	return Key128{binary.BigEndian.Uint64(sum[0:]), binary.BigEndian.Uint64(sum[8:])}
}

// PartitionOfHash cuts the 64-bit hash space into equal ranges, one a partition, in order: floor(hash × partitions / 2^64). Metadata's
// hashFrom follows this rule as long as no partition is split. partitions must be positive.
func PartitionOfHash(hash uint64, partitions int) int {
	hi, _ := bits.Mul64(hash, uint64(partitions))
	return int(hi)
}

// HashFrom gives the first hash of a partition's range: the smallest for which PartitionOfHash gives partition.
func HashFrom(partition, partitions int) uint64 {
	if partition == 0 {
		return 0
	}
	// ceil(partition × 2^64 / partitions); the quotient fits since partition < partitions.
	quo, rem := bits.Div64(uint64(partition), 0, uint64(partitions))
	if rem != 0 {
		quo++
	}
	return quo
}

// Micros gives the format's time unit: microseconds since 1970, rounded down.
func Micros(t time.Time) int64 { return t.UnixMicro() }

// Time is the other way round, in UTC.
func Time(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
