package sealed

import (
	"github.com/seedqueue/sq/libs/partition"
)

// Digest is the SHA-256 of the log part of a segment.
type Digest [32]byte

// Seal says that [Base, End) is final and has these bytes on every replica.
type Seal struct {
	Base, End partition.Offset
	Size      uint64 // bytes of the log part
	SHA256    Digest
}

// Segment is a sealed segment that is in the bucket.
type Segment struct {
	Base, End       partition.Offset
	Epoch           partition.Epoch // of the last batch in it
	Size            uint64          // bytes of the log part
	ObjectSize      uint64          // with the footer
	SHA256          Digest
	Key             string
	FirstAppendTime int64 // microseconds since 1970
	LastAppendTime  int64
}

// Drop is a key that no table names any more; it may be deleted from the bucket at NotBefore, microseconds since 1970.
type Drop struct {
	Key       string
	NotBefore int64
}
