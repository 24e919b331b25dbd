// Package segment has the files of a log: their names, their index, their footer, and what their bytes prove after a crash.
// docs/formats/segment.md has the byte tables.
//
//  1. A segment file holds frames and nothing else: whole batches of one segmentBase and one partition tag, with contiguous offsets, each
//     carrying the chain of the one before. What does not fit that is not part of the segment; zeros prove nothing.
//  2. A segment is Open (grows, one writer), then Closed (may still be cut), then Sealed (its Seal is committed: never changes again).
//     Three types, each with the methods that are legal in that state.
//  3. An index is derived from the frames and can be thrown away. It is written only after the frames it covers are durable, so a valid
//     one proves them.
//  4. The first bad place of a file is torn (never acknowledged here, may be cut), corrupt (proven to have been written: kept, reported)
//     or suspect (nothing proves either). Only Assess decides, from the evidence it is given.
//  5. Nothing is allocated by a length read from a file before it is checked.
//
// Called by broker/internal/wal, the tierer (index, footer, block checksums) and `sq inspect` (scan, verify). Values and functions; a Scanner
// and an Open belong to one goroutine at a time, Files is safe for concurrent use. It does not know replicas, epochs' meaning or etcd.
package segment
