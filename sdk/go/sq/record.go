package sq

import (
	"fmt"
	"time"

	"github.com/seedqueue/sq/proto/batch"
)

// Header is a named value beside a record. Names need not be unique and keep their order; a nil value is null.
type Header = batch.RecordHeader

// Record is one message. Key, Value, Headers and Timestamp are the producer's; the rest is set by a reader and ignored by a producer.
type Record struct {
	// Key routes the record: equal keys go to the same partition, in order. nil = no key, which differs from an empty one.
	Key []byte
	// Value is the message; nil = null (a tombstone), which differs from an empty one.
	Value   []byte
	Headers []Header
	// Timestamp is the producer's time, kept in microseconds. Zero = now.
	Timestamp time.Time

	Partition int
	Offset    int64

	appendMicros int64
}

// AppendTime gives when the partition's leader appended a record that was read: what retention and positions by time go by.
func (r *Record) AppendTime() time.Time { return batch.Time(r.appendMicros) }

// Durability is what the cluster did before it acknowledged.
type Durability uint8

// The levels, weakest first.
const (
	// DurabilityNone: nothing is promised.
	DurabilityNone Durability = iota
	// WrittenQuorum: in the page cache of a majority.
	WrittenQuorum
	// FsyncQuorum: on the disks of a majority.
	FsyncQuorum
)

// String gives the word that SQ prints everywhere.
func (d Durability) String() string {
	switch d {
	case DurabilityNone:
		return "none"
	case WrittenQuorum:
		return "written-quorum"
	case FsyncQuorum:
		return "fsync-quorum"
	default:
		return fmt.Sprintf("durability-%d", uint8(d))
	}
}

// MarshalText implements encoding.TextMarshaler.
func (d Durability) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// Ack says that a record is stored, and where.
type Ack struct {
	Partition int
	// Offset is -1 where it is not known: a repeat of a record stored so long ago that its place is forgotten, or AckNone.
	Offset int64
	// Duplicate: an earlier attempt had stored it.
	Duplicate  bool
	Durability Durability
	AppendTime time.Time
}

// Result is the fate of one record of a batch: Err nil = stored, as the Ack says.
type Result struct {
	Ack

	Err error
}

// Codec says how batches are compressed.
type Codec = batch.Codec

// The codecs.
const (
	None = batch.None
	S2   = batch.S2
	LZ4  = batch.LZ4
	Zstd = batch.Zstd
)
