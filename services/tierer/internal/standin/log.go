package standin

import (
	"crypto/sha256"
	"fmt"
	"testing"

	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
)

// Segment is a sealed segment of a Log.
type Segment struct {
	leader.Sealed

	Bytes    []byte   // the log part
	Batches  [][]byte // its batches; they alias Bytes
	Index    []byte
	Snapshot []byte
}

// Log is a partition's log as far as it is sealed. A Broker guards it.
type Log struct {
	ID       partition.ID
	Epoch    partition.Epoch
	Segments []*Segment
	LogStart partition.Offset

	Tiered          []manifest.Segment // with keys
	TierEnd         partition.Offset
	Version         uint64
	ExportedEnd     partition.Offset
	ExportedVersion uint64
	Sequence        uint64   // of the manifest that was exported last
	Collectable     []string // named by every harvest until collected
	Collected       []string

	chain uint64
	end   partition.Offset
	time  int64
}

// NewLog makes an empty log, led in epoch 1.
func NewLog(id partition.ID) *Log { return &Log{ID: id, Epoch: 1, time: 1_000_000} }

// Seal appends a sealed segment of so many batches, each of records of about recordBytes. Append times step by 1 ms.
func (l *Log) Seal(t testing.TB, batches, records, recordBytes int) *Segment {
	t.Helper()
	hi, lo := l.ID.Topic.Halves()
	tag := batch.PartitionTag(hi, lo, uint32(l.ID.Index))
	s := &Segment{Sealed: leader.Sealed{Base: l.end, Epoch: l.Epoch, FirstAppendTime: l.time}, Snapshot: []byte("snapshot")}
	index := &segment.Index{Summary: segment.Summary{Base: l.end, End: l.end, Tag: tag}}
	var builder batch.Builder
	builder.Limit = batch.MaxBytes
	var ends []int
	for range batches {
		builder.Reset()
		for i := range records {
			value := fmt.Appendf(make([]byte, 0, recordBytes+32), "offset %d ", uint64(l.end)+uint64(i))
			for len(value) < recordBytes {
				value = append(value, byte('a'+len(value)*7%26))
			}
			if err := builder.Add(batch.Record{Value: value, Timestamp: l.time}); err != nil {
				t.Fatal(err)
			}
		}
		from := len(s.Bytes)
		var err error
		if s.Bytes, err = builder.Build(s.Bytes, batch.BuildOptions{}); err != nil {
			t.Fatal(err)
		}
		msg := s.Bytes[from:]
		batch.Stamp(msg, batch.Stamps{
			SegmentBase: uint64(s.Base), BaseOffset: uint64(l.end), Epoch: uint64(l.Epoch), AppendTime: l.time, Chain: l.chain, PartitionTag: tag,
		})
		h, err := batch.ParseHeader(msg)
		if err != nil {
			t.Fatal(err)
		}
		l.chain = batch.NextChain(msg)
		index.Add(&h, l.chain)
		s.LastAppendTime = l.time
		l.end = partition.Offset(h.NextOffset())
		l.time += 1000
		ends = append(ends, len(s.Bytes))
	}
	from := 0
	for _, end := range ends {
		s.Batches = append(s.Batches, s.Bytes[from:end])
		from = end
	}
	s.End, s.Size, s.SHA256, s.Index = l.end, int64(len(s.Bytes)), sha256.Sum256(s.Bytes), index.AppendTo(nil)
	l.Segments = append(l.Segments, s)
	return s
}

// End is where the log ends.
func (l *Log) End() partition.Offset { return l.end }

// waiting are the sealed segments that are not tiered.
func (l *Log) waiting() []*Segment {
	for i, s := range l.Segments {
		if s.Base >= l.TierEnd {
			return l.Segments[i:]
		}
	}
	return nil
}

func (l *Log) hasWork() bool {
	return len(l.waiting()) > 0 || l.ExportedVersion < l.Version || len(l.Collectable) > 0
}
