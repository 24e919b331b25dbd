package wal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
)

// Config says where a log is and what it shares with others. FS, Dir and Tag are needed.
type Config struct {
	FS     vfs.FS
	Dir    string         // of this replica alone, below the FS's root; made if missing
	Tag    uint64         // batch.PartitionTag: a batch with another one is not part of this log
	Log    *slog.Logger   // nil: nothing is logged
	Files  *segment.Files // open files, shared by the logs of a disk; nil: the log has its own
	Limits Limits
	Origin Origin // where the log begins while it has no file
	// Barrier is called before anything is cut, with the mark that holds afterwards. It returns when that mark is durable in the caller's
	// journal and no later mark of the generation before can follow; if it fails, nothing is cut. nil: the caller keeps no marks.
	Barrier func(segment.Mark) error
}

// Origin is where a log without a file begins.
type Origin struct {
	Offset partition.Offset
	Chain  uint64 // chain word of the batch at Offset
}

// Tail is what a writer needs to know to go on.
type Tail struct {
	End   partition.Offset
	Chain uint64 // chain word of the batch at End
	// SegmentBase is what the next batch carries to go on in the same segment; End if it has to start one.
	SegmentBase    partition.Offset
	SegmentBytes   int64 // in that segment
	SegmentRecords bool  // that segment has a batch that is not a control batch
	SegmentTime    int64 // append time of that segment's first batch, microseconds since 1970; 0 = none
	LastEpoch      partition.Epoch
	LastAppendTime int64 // microseconds since 1970
}

// State says where a segment is in its life.
type State uint8

// The states.
const (
	StateOpen   State = iota // grows
	StateClosed              // ended; may still be cut
	StateSealed              // its Seal is committed
)

// String gives the state in lower case.
func (s State) String() string { return [...]string{"open", "closed", "sealed"}[s%3] }

// SegmentInfo describes a segment.
type SegmentInfo struct {
	segment.Summary
	State  State
	SHA256 [32]byte // of a sealed one; zero where it is not known
}

// ErrBelowStart says that an offset lies below the log's Start: dropped here, perhaps tiered. Its error is a fault.OffsetTiered with the
// start in Offset.
var ErrBelowStart = errors.New("below the start of the local log")

var errClosed = errors.New("log is closed")

// Log is one replica's log. See doc.go for who may call what.
type Log struct {
	fs      vfs.FS
	dir     string
	tag     uint64
	log     *slog.Logger
	files   *segment.Files
	owned   bool // files are this log's
	limits  Limits
	barrier func(segment.Mark) error

	// mutate is held by whatever changes the log, and guards what follows.
	mutate     sync.Mutex
	sealed     []*segment.Sealed // ascending, then closed, then open
	closed     []*segment.Closed
	open       *segment.Open // nil: the next batch reopens the last closed segment or starts one
	origin     Origin        // where the first segment begins, or would
	tail       Tail
	broken     bool // the end cannot be read: nothing can continue it
	overhang   bool // the open file has bytes behind its end that recovery did not dare to cut; the next write does
	faults     []segment.Range
	generation uint64
	installed  uint64          // compacted files that were put in place
	readers    []source        // of sealed and closed; rebuilt when those change
	frames     []segment.Frame // of the running append

	// syncing is held while a file is synced, closed or cut, so that no sync runs beside another one of the file: of two, the kernel
	// tells only one about an error. Taken after mutate where both are.
	syncing sync.Mutex
	// indexed is how far the open segment's index was written, in bytes. Guarded by syncing.
	indexed struct {
		base partition.Offset
		size int64
	}

	view atomic.Pointer[view]
	mark atomic.Pointer[segment.Mark] // durable in the files
	// persisted is what is durable in the files or in a journal; never behind mark, never falls within a generation.
	persisted atomic.Pointer[segment.Mark]
	poison    atomic.Pointer[fault.Error]
	cursors   [cursors]atomic.Pointer[cursor]
}

// view is the log at one moment. Immutable.
type view struct {
	start  partition.Offset
	tail   Tail
	closed []source      // sealed and closed segments, ascending
	open   *source       // nil = none
	file   *segment.Open // the writer behind open, for Sync
	faults []segment.Range
	broken bool
	// generation and installed are the log's: places found in a view of other ones may be wrong.
	generation, installed uint64
}

// source is a segment that can be read.
type source struct {
	*segment.Reader
	state State
	sum   [32]byte
}

// publish makes the present state what readers see. Called with mutate held.
func (l *Log) publish() {
	v := &view{start: l.start(), tail: l.tail, closed: l.readers, faults: l.faults, file: l.open, broken: l.broken, generation: l.generation, installed: l.installed}
	if l.open != nil {
		v.open = &source{Reader: l.open.Reader(), state: StateOpen}
	}
	l.view.Store(v)
}

// relist makes the readers of sealed and closed segments anew. Called with mutate held when those have changed.
func (l *Log) relist() {
	l.readers = make([]source, 0, len(l.sealed)+len(l.closed))
	for _, s := range l.sealed {
		l.readers = append(l.readers, source{s.Reader(), StateSealed, s.SHA256()})
	}
	for _, c := range l.closed {
		l.readers = append(l.readers, source{Reader: c.Reader(), state: StateClosed})
	}
}

// start gives the first offset. Called with mutate held.
func (l *Log) start() partition.Offset {
	switch {
	case len(l.sealed) > 0:
		return l.sealed[0].Summary().Base
	case len(l.closed) > 0:
		return l.closed[0].Summary().Base
	case l.open != nil:
		return l.open.Summary().Base
	default:
		return l.origin.Offset
	}
}

// retail derives the tail from the last segment that holds a batch. Called with mutate held when anything but an append has changed the end.
func (l *Log) retail(end segment.Place) {
	t := Tail{End: end.Offset, Chain: end.Chain, SegmentBase: end.Offset}
	l.broken = end.Unchained
	last := func(s segment.Summary, grows bool) bool {
		if s.Size == 0 {
			return false
		}
		t.LastEpoch, t.LastAppendTime = s.Epoch, s.LastAppendTime
		if grows {
			t.SegmentBase, t.SegmentBytes, t.SegmentRecords, t.SegmentTime = s.Base, s.Size, s.HasRecords, s.FirstAppendTime
		}
		return true
	}
	defer func() { l.tail = t }()
	if l.open != nil && last(l.open.Summary(), true) {
		return
	}
	if n := len(l.closed); n > 0 && last(l.closed[n-1].Summary(), true) {
		return
	}
	if n := len(l.sealed); n > 0 {
		last(l.sealed[n-1].Summary(), false)
	}
}

// setMark says that everything up to a tail is durable in the files. Called with syncing held, or before the log is anybody's.
func (l *Log) setMark(generation uint64, t Tail) {
	m := segment.Mark{Generation: generation, Base: t.SegmentBase, Offset: t.End, Position: t.SegmentBytes, Chain: t.Chain}
	l.mark.Store(&m)
	l.advance(m)
}

// resetMark begins a generation.
func (l *Log) resetMark(m segment.Mark) {
	l.mark.Store(&m)
	l.persisted.Store(&m)
}

// usable tells why nothing can be changed; nil if it can.
func (l *Log) usable(op string) error {
	if err := l.Err(); err != nil {
		return fault.Wrap(op, err)
	}
	return nil
}

// fail poisons the log, unless the error says that what is written is not in doubt.
func (l *Log) fail(err error) error {
	switch fault.KindOf(err) {
	case fault.DiskFull, fault.Overloaded, fault.Corrupt:
		return err
	default:
		return l.poisonBy(err)
	}
}

func (l *Log) poisonBy(err error) error {
	l.poison.CompareAndSwap(nil, &fault.Error{Kind: fault.DiskPoisoned, Err: err})
	return l.Err()
}

// Poison makes the log take nothing any more because its disk has failed elsewhere.
func (l *Log) Poison(cause error) {
	l.poison.CompareAndSwap(nil, &fault.Error{Kind: fault.DiskPoisoned, Err: cause})
}

// Err tells why the log takes nothing any more; nil if it does.
func (l *Log) Err() error {
	if err := l.poison.Load(); err != nil {
		return err
	}
	return nil
}

// Start is the first offset that the log has.
func (l *Log) Start() partition.Offset { return l.view.Load().start }

// End is the offset behind the last batch that was written.
func (l *Log) End() partition.Offset { return l.view.Load().tail.End }

// Persisted is the offset below which everything is durable here, in the log's files or in a journal.
func (l *Log) Persisted() partition.Offset { return l.persisted.Load().Offset }

// Mark is the place up to which everything is durable in the log's own files, for the journal. Its Generation counts the Truncates.
func (l *Log) Mark() segment.Mark { return *l.mark.Load() }

// Tail tells how the next batch has to be stamped.
func (l *Log) Tail() Tail { return l.view.Load().tail }

// Faults gives the corrupt ranges, in order. Not to be changed.
func (l *Log) Faults() []segment.Range { return l.view.Load().faults }

// Segments lists the segments in order; the last one may be open.
func (l *Log) Segments() []SegmentInfo {
	v := l.view.Load()
	out := make([]SegmentInfo, 0, len(v.closed)+1)
	for i := range v.closed {
		out = append(out, v.closed[i].info())
	}
	if v.open != nil {
		out = append(out, v.open.info())
	}
	return out
}

func (s *source) info() SegmentInfo {
	return SegmentInfo{Summary: s.Summary, State: s.state, SHA256: s.sum}
}

// Close makes everything durable and writes the index of the open segment, so that the next Open need not scan. The log takes nothing
// afterwards. What readers hold stays readable.
func (l *Log) Close() error {
	l.mutate.Lock()
	defer l.mutate.Unlock()
	if errors.Is(l.Err(), errClosed) {
		return nil
	}
	err := l.usable("close log")
	switch {
	case l.open == nil:
	case err == nil && !l.overhang && l.open.Summary().Size > 0:
		err = l.closeOpen()
	default:
		l.syncing.Lock()
		l.open.Abandon()
		l.syncing.Unlock()
	}
	l.poison.Store(&fault.Error{Kind: fault.Unavailable, Op: "use log", Err: errClosed})
	if l.owned {
		l.files.Close()
	}
	return err
}

// closeOpen turns the open segment into a closed one. Called with mutate held.
func (l *Log) closeOpen() error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	base := l.open.Summary().Base
	closed, err := l.open.Close(func(err error) {
		l.log.Warn("cannot write an index, it will be made again", "segment", uint64(base), "err", err)
	})
	if err != nil {
		return l.fail(err)
	}
	l.closed, l.open = append(l.closed, closed), nil
	l.relist()
	l.publish()
	l.setMark(l.generation, l.tail)
	return nil
}

// op names an operation at an offset.
func op(what string, o partition.Offset) string { return fmt.Sprintf("%s at offset %d", what, o) }
