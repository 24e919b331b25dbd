package leader

import (
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
)

// Work is what a partition has for a tierer.
type Work struct {
	Partition       partition.ID
	Epoch           partition.Epoch
	TierEnd         partition.Offset
	ExportedEnd     partition.Offset // a manifest covers the log up to here
	ExportedVersion uint64           // of the table that was exported last
	TableVersion    uint64
	Sealed          []Sealed // from TierEnd on, contiguous
	Collectable     []string // keys that may be deleted from the bucket
}

// Sealed is a sealed segment that is not in the bucket.
type Sealed struct {
	Base, End       partition.Offset
	Size            int64           // bytes
	SHA256          [32]byte        // of them
	Epoch           partition.Epoch // of the last batch
	FirstAppendTime int64           // microseconds since 1970
	LastAppendTime  int64
}

// Part is a stretch of a sealed segment.
type Part struct {
	Size     int64  // of the segment
	Index    []byte // with the first part
	Snapshot []byte // with the first part
	Body     []byte
}

// Table is an answer to a question for the tier table.
type Table struct {
	Epoch    partition.Epoch
	Version  uint64
	TierEnd  partition.Offset
	LogStart partition.Offset
	Segments []manifest.Segment // each with its Key
	More     bool               // ask again from the end of the last one
}

// Committed is the table's end after a commit.
type Committed struct {
	TierEnd partition.Offset
	Version uint64
}

// Exported says that a manifest in the bucket covers a table.
type Exported struct {
	Epoch    partition.Epoch
	Version  uint64
	TierEnd  partition.Offset
	Sequence uint64
}
