package sealed

import "github.com/seedqueue/sq/libs/partition"

// Untiered is a sealed segment that waits for a tierer.
type Untiered struct {
	Seal
	Epoch           partition.Epoch // of the last batch in it
	FirstAppendTime int64           // microseconds since 1970
	LastAppendTime  int64
}

// Harvest is the work a partition has for a tierer.
type Harvest struct {
	Partition       partition.ID
	Epoch           partition.Epoch
	TierEnd         partition.Offset
	ExportedEnd     partition.Offset
	ExportedVersion uint64
	TableVersion    uint64
	Sealed          []Untiered // from TierEnd on, contiguous
	Collectable     []string   // keys that may be deleted from the bucket now
}

// Excerpt is a part of the tier table.
type Excerpt struct {
	Epoch    partition.Epoch
	Version  uint64
	TierEnd  partition.Offset
	LogStart partition.Offset
	Segments []Segment // none if nothing is newer than what the caller knows
	More     bool      // ask again from the end of the last segment
}

// Committed is the table's end after a CommitTier.
type Committed struct {
	TierEnd      partition.Offset
	TableVersion uint64
}

// Exported says that a manifest in the bucket covers the tier table.
type Exported struct {
	Epoch            partition.Epoch
	TableVersion     uint64
	TierEnd          partition.Offset
	ManifestSequence uint64
}
