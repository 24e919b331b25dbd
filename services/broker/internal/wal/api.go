package wal

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// ErrBelowStart says that an offset lies below the log's Start: dropped here, perhaps tiered.
var ErrBelowStart = errors.New("offset is below the start of the log")

// Config says where a log is and what it shares with others. FS, Dir and Tag are needed.
type Config struct {
	FS     vfs.FS
	Dir    string         // of this replica, below the FS's root; made if missing
	Tag    uint64         // batch.PartitionTag: a batch with another one is not part of this log
	Log    *slog.Logger   // nil: nothing is logged
	Files  *segment.Files // open files, shared by the logs of a disk; nil: the log has its own
	Limits Limits         // zero fields: defaults
	Origin Origin         // where an empty log begins
	// Barrier is called before anything is cut, with the mark that holds afterwards. It returns when that mark is durable; if it
	// fails, nothing is cut. nil: the caller keeps no marks.
	Barrier func(segment.Mark) error
}

// Origin is where a log without a file begins.
type Origin struct {
	Offset partition.Offset
	Chain  uint64
}

// Evidence is what the caller can prove about the log from outside of it.
type Evidence struct {
	// HW is a high watermark that this replica knew; 0 = none.
	HW partition.Offset
	// Mark is the newest mark that this replica kept; zero = none.
	Mark segment.Mark
}

// Tail is what a writer needs to know to go on.
type Tail struct {
	End            partition.Offset
	Chain          uint64           // of the batch at End
	SegmentBase    partition.Offset // of the open segment; End where there is none, so that the next batch starts one
	SegmentBytes   int64            // in the open segment
	SegmentRecords bool             // the open segment has a batch that is not a control batch
	SegmentTime    int64            // append time of the open segment's first batch, microseconds since 1970
	LastEpoch      partition.Epoch
	LastAppendTime int64 // microseconds since 1970
}

// Recovery is what Open found.
type Recovery struct {
	Tail
	Start       partition.Offset
	Snapshot    []byte           // the newest valid one at or below End; nil = none
	SnapshotEnd partition.Offset // the offset that it is the state of
	Class       segment.Class    // the worst one found
	Cut         segment.Range    // what was taken off the end; empty if nothing was
	Faults      []segment.Range  // corrupt ranges, in order; reads there fail with fault.Corrupt
}

// State says where a segment is in its life.
type State uint8

// The states.
const (
	StateOpen   State = iota // grows
	StateClosed              // rotated; may still be cut
	StateSealed              // its Seal is committed
)

// SegmentInfo describes a segment.
type SegmentInfo struct {
	segment.Summary
	State  State
	SHA256 [32]byte // of a sealed one
}

// Chunk is a run of whole batches in one file: a body that can be sent without a copy. It keeps its file until Close.
type Chunk struct {
	NextOffset partition.Offset // where the next read goes on
}

// Len gives the bytes.
func (c *Chunk) Len() int { return 0 }

// WriteTo sends the bytes, by sendfile where w is a TCP connection.
func (c *Chunk) WriteTo(w io.Writer) (int64, error) { return 0, errNotBuilt }

// Close lets go of the file.
func (c *Chunk) Close() error { return errNotBuilt }

// Log is one replica's log in one directory.
type Log struct{}

// Limits bounds what a log takes; zero fields mean the default.
type Limits struct{}

var errNotBuilt = errors.New("not built yet")

// Open opens the log, making it if missing, and recovers it.
func Open(ctx context.Context, cfg Config, ev Evidence) (*Log, Recovery, error) {
	return nil, Recovery{}, errNotBuilt
}
func (l *Log) Append(batches [][]byte) error      { return errNotBuilt }
func (l *Log) Sync() error                        { return errNotBuilt }
func (l *Log) Truncate(to partition.Offset) error { return errNotBuilt }
func (l *Log) Read(from, limit partition.Offset, maxBytes int) (*Chunk, error) {
	return nil, errNotBuilt
}

func (l *Log) OffsetAt(appendTime int64, limit partition.Offset) (partition.Offset, error) {
	return 0, errNotBuilt
}
func (l *Log) At(o partition.Offset) (batch.Header, error) { return batch.Header{}, errNotBuilt }
func (l *Log) Scan(from partition.Offset, fn func(h batch.Header, msg []byte) error) error {
	return errNotBuilt
}
func (l *Log) Start() partition.Offset     { return 0 }
func (l *Log) End() partition.Offset       { return 0 }
func (l *Log) Persisted() partition.Offset { return 0 }
func (l *Log) Mark() segment.Mark          { return segment.Mark{} }
func (l *Log) Tail() Tail                  { return Tail{} }
func (l *Log) Segments() []SegmentInfo     { return nil }
func (l *Log) Faults() []segment.Range     { return nil }
func (l *Log) Digest(base partition.Offset) (size int64, sum [32]byte, err error) {
	return 0, sum, errNotBuilt
}

func (l *Log) MarkSealed(base partition.Offset, sum [32]byte, snapshot []byte) error {
	return errNotBuilt
}

func (l *Log) ReadSealed(base partition.Offset, pos int64, n int) (*Chunk, error) {
	return nil, errNotBuilt
}

func (l *Log) SealedParts(base partition.Offset) (index, snapshot []byte, err error) {
	return nil, nil, errNotBuilt
}
func (l *Log) DropBefore(o partition.Offset) error { return errNotBuilt }
func (l *Log) Err() error                          { return errNotBuilt }
func (l *Log) Close() error                        { return errNotBuilt }
