package memstore

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/seedqueue/sq/libs/topology"
)

// watch is one delivery goroutine's state; next and broken are guarded by the store's mutex.
type watch struct {
	prefix string
	next   int64 // revision to deliver next
	broken error
	wake   chan struct{} // capacity 1
}

// Watch implements topology.Store. fromRevision 0 = from the next change on.
func (s *Store) Watch(ctx context.Context, prefix string, fromRevision int64) <-chan topology.Events {
	out := make(chan topology.Events)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		close(out)
		return out
	}
	w := &watch{prefix: prefix, next: fromRevision, wake: make(chan struct{}, 1)}
	if fromRevision == 0 {
		w.next = s.mu.revision + 1
	}
	if err := s.enter(ctx, Call{Method: Watch, Key: prefix}); err != nil {
		w.broken = err
	}
	s.mu.watches[w] = struct{}{}
	s.tasks.Go(func() { s.deliver(ctx, w, out) })
	return out
}

func (s *Store) deliver(ctx context.Context, w *watch, out chan<- topology.Events) {
	defer close(out)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mu.watches, w)
	}()
	for {
		events, ok, end := s.take(w)
		if !ok {
			select {
			case <-w.wake:
				continue
			case <-ctx.Done():
				return
			case <-s.done.Done():
				end, events = true, topology.Events{Err: topology.Unavailable("watch "+w.prefix, errClosed)}
			}
		}
		select {
		case out <- events:
		case <-ctx.Done():
			return
		case <-s.done.Done():
			return
		}
		if end {
			return
		}
	}
}

// take gives the next events of a watch; ok is false where there are none yet, end is true where they are the last.
func (s *Store) take(w *watch) (events topology.Events, ok, end bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case w.broken != nil:
		return topology.Events{Err: w.broken}, true, true
	case s.mu.held:
		return topology.Events{}, false, false
	case w.next <= s.mu.compacted:
		return topology.Events{Err: fmt.Errorf("watch %s from revision %d: %w", w.prefix, w.next, topology.ErrCompacted)}, true, true
	}
	at := sort.Search(len(s.mu.history), func(i int) bool { return s.mu.history[i].Revision >= w.next })
	for _, past := range s.mu.history[at:] {
		w.next = past.Revision + 1
		var changes []topology.Change
		for _, change := range past.Changes {
			if strings.HasPrefix(change.KV.Key, w.prefix) {
				change.KV = clone(change.KV)
				changes = append(changes, change)
			}
		}
		if len(changes) > 0 {
			return topology.Events{Revision: past.Revision, Changes: changes}, true, false
		}
	}
	return topology.Events{}, false, false
}

// signal wakes every watch.
func (s *Store) signal() {
	for w := range s.mu.watches {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}
