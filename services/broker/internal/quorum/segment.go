package quorum

import (
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// CutPolicy says when the leader starts a new segment.
type CutPolicy struct {
	Bytes int64         // a segment of records does not grow past it, but for a single batch
	Age   time.Duration // of the first records in the segment; 0 = never by age
}

// segment is what the core knows of the open segment.
type segment struct {
	base  partition.Offset
	bytes int64
	first int64 // append time of the first records in it
	data  bool  // it holds records, not control batches alone
}

// add accounts for a batch at the end, which may start a new segment.
func (s *segment) add(h *batch.Header) {
	if h.SegmentBase == h.BaseOffset {
		*s = segment{base: partition.Offset(h.BaseOffset)}
	}
	s.bytes += int64(h.Size)
	if !h.IsControl() && !s.data {
		s.data, s.first = true, h.AppendTime
	}
}

// full tells whether a batch of size bytes has to start a new segment.
func (s *segment) full(p CutPolicy, size int, now int64) bool {
	return s.bytes > 0 && (s.bytes+int64(size) > p.Bytes || s.old(p, now))
}

// old tells whether the records in the segment have waited long enough. A tail of control batches never has (doc.go 6).
func (s *segment) old(p CutPolicy, now int64) bool {
	return p.Age > 0 && s.data && now-s.first >= p.Age.Microseconds()
}
