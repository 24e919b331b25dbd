package ledger

import (
	"container/list"
	"context"
	"sync"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
)

const (
	// pageSegments is how many entries are asked for at a time: about 250 bytes each, within a message of 1 MiB.
	pageSegments = 2_048
	// pagesMax bounds a table: some two million segments.
	pagesMax = 1_024
)

// Leader is who knows the tables: leader.Pool.
type Leader interface {
	Table(ctx context.Context, id partition.ID, since uint64, from partition.Offset, maxSegments int) (leader.Table, error)
}

// Ledger caches tables.
type Ledger struct {
	leader  Leader
	cluster func() partition.UUID
	limit   int
	mu      struct {
		sync.Mutex

		entries map[partition.ID]*list.Element // of *entry
		recent  list.List                      // most recently used first
	}
}

// entry is one partition's place; its own mutex is held while it is refreshed, so that one question at a time is under way.
type entry struct {
	id       partition.ID
	table    *manifest.Table // nil = not known; guarded by the ledger
	refresh  chan struct{}   // capacity 1: who holds the token refreshes
	sequence uint64          // of refreshes that have begun; guarded by the ledger
	done     uint64          // highest of them that has ended well; guarded by the ledger
}

// New makes an empty ledger for at most limit partitions. cluster gives the cluster's identity, which the leader's keys are checked against.
func New(source Leader, cluster func() partition.UUID, limit int) *Ledger {
	l := &Ledger{leader: source, cluster: cluster, limit: limit}
	l.mu.entries = map[partition.ID]*list.Element{}
	return l
}

// Table gives the table as known; nil where it is not.
func (l *Ledger) Table(id partition.ID) *manifest.Table {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.mu.entries[id]
	if !ok {
		return nil
	}
	l.mu.recent.MoveToFront(at)
	return at.Value.(*entry).table //nolint:forcetypeassert,errcheck // the list holds nothing else.
}

// Refresh asks the leader what is new and gives the table, which is at least as new as the moment of the call. Callers at the same time share
// one question.
func (l *Ledger) Refresh(ctx context.Context, id partition.ID) (*manifest.Table, error) {
	e := l.entry(id)
	l.mu.Lock()
	e.sequence++
	mine := e.sequence
	l.mu.Unlock()
	select {
	case e.refresh <- struct{}{}:
	case <-ctx.Done():
		return nil, fault.Wrap("ask for tier table", context.Cause(ctx))
	}
	defer func() { <-e.refresh }()
	l.mu.Lock()
	old, covers, done := e.table, e.sequence, e.done
	l.mu.Unlock()
	if done >= mine && old != nil {
		return old, nil // a question that began after this call has been answered
	}
	next, err := l.ask(ctx, id, old)
	if err != nil {
		return nil, fault.Wrap("ask for tier table of "+id.String(), err)
	}
	l.mu.Lock()
	e.table, e.done = next, covers
	l.mu.Unlock()
	return next, nil
}

// Forget drops a partition's table.
func (l *Ledger) Forget(id partition.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.mu.entries[id]; ok {
		l.mu.recent.Remove(at)
		delete(l.mu.entries, id)
	}
}

func (l *Ledger) entry(id partition.ID) *entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.mu.entries[id]; ok {
		l.mu.recent.MoveToFront(at)
		return at.Value.(*entry) //nolint:forcetypeassert,errcheck // the list holds nothing else.
	}
	e := &entry{id: id, refresh: make(chan struct{}, 1)}
	l.mu.entries[id] = l.mu.recent.PushFront(e)
	for len(l.mu.entries) > l.limit {
		last := l.mu.recent.Back()
		l.mu.recent.Remove(last)
		delete(l.mu.entries, last.Value.(*entry).id) //nolint:forcetypeassert,errcheck // the list holds nothing else.
	}
	return e
}

// ask brings a table up to date, by what is new where that fits, else whole.
func (l *Ledger) ask(ctx context.Context, id partition.ID, old *manifest.Table) (*manifest.Table, error) {
	if old != nil {
		next, err := l.load(ctx, id, old)
		if err == nil && next.Check() == nil {
			return next, nil
		}
		if err != nil && !fault.Is(err, fault.Conflict) {
			return nil, err
		}
	}
	next, err := l.load(ctx, id, nil)
	if err != nil {
		return nil, err
	}
	if err := next.Check(); err != nil {
		return nil, fault.Errorf(fault.Corrupt, "read tier table: %w", err)
	}
	if old != nil && (next.Epoch < old.Epoch || (next.Epoch == old.Epoch && next.Version < old.Version)) {
		return nil, fault.Errorf(fault.StaleEpoch, "read tier table: version %d of epoch %d, known is version %d of epoch %d",
			next.Version, next.Epoch, old.Version, old.Epoch)
	}
	return next, nil
}

// load reads the table page by page; with an old one only what lies behind it. Conflict means that the old one is of no use: read it whole.
func (l *Ledger) load(ctx context.Context, id partition.ID, old *manifest.Table) (*manifest.Table, error) {
	next := &manifest.Table{Partition: id}
	var since uint64
	var from partition.Offset
	if old != nil {
		since, from = old.Version, old.TierEnd
		next.Segments, next.Epoch, next.Version = old.Segments, old.Epoch, old.Version
	}
	for range pagesMax {
		answer, err := l.leader.Table(ctx, id, since, from, pageSegments)
		if err != nil {
			return nil, err //nolint:wrapcheck // Refresh wraps it.
		}
		if answer.Version < next.Version || answer.Epoch < next.Epoch {
			return nil, fault.Errorf(fault.Conflict, "the table has gone back")
		}
		next.Epoch, next.Version, next.TierEnd, next.LogStart = answer.Epoch, answer.Version, answer.TierEnd, answer.LogStart
		if next.Segments, err = l.extend(id, next.Segments, answer.Segments); err != nil {
			return nil, err
		}
		if !answer.More || len(answer.Segments) == 0 {
			next.Segments = above(next.Segments, next.LogStart)
			return next, nil
		}
		since, from = 0, answer.Segments[len(answer.Segments)-1].End
	}
	return nil, fault.Errorf(fault.TooLarge, "the table has more than %d segments", pagesMax*pageSegments)
}

// extend appends to a slice that readers hold. They see nothing beyond its length, and only the holder of the entry's token appends. Keys
// that follow from the rest are not kept.
func (l *Ledger) extend(id partition.ID, have, more []manifest.Segment) ([]manifest.Segment, error) {
	cluster := l.cluster()
	for _, s := range more {
		given := s.Key
		s.Key = ""
		if given != manifest.SegmentKey(cluster, id, s) {
			s.Key = given
		}
		if len(have) > 0 && s.Base < have[len(have)-1].End {
			if s == have[len(have)-1] {
				continue
			}
			return nil, fault.Errorf(fault.Conflict, "segment at %d lies behind one that ends at %d", s.Base, have[len(have)-1].End)
		}
		have = append(have, s)
	}
	return have, nil
}

// above leaves out what ends at or below the log start: the leader may have dropped it, and nobody reads it.
func above(segments []manifest.Segment, logStart partition.Offset) []manifest.Segment {
	for len(segments) > 0 && segments[0].End <= logStart {
		segments = segments[1:]
	}
	return segments
}
