package storetest

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/topology"
)

func testWatch(t *testing.T, s *suite) {
	watch := s.store.Watch(s.ctx, s.key("w/"), s.revision(t)+1)
	first := s.put(t, "w/a", "1")
	s.put(t, "other", "1")
	both := s.txn(t, nil, topology.Op{Key: s.key("w/a"), Value: []byte("2")}, topology.Op{Key: s.key("w/b"), Value: []byte("3")}).Revision
	gone := s.remove(t, "w/a")
	put := func(name, value string, create, mod, version int64) topology.Change {
		return topology.Change{KV: topology.KV{Key: s.key(name), Value: []byte(value), CreateRevision: create, ModRevision: mod, Version: version}}
	}
	want := []topology.Events{
		{Revision: first, Changes: []topology.Change{put("w/a", "1", first, first, 1)}},
		{Revision: both, Changes: []topology.Change{put("w/a", "2", first, both, 2), put("w/b", "3", both, both, 1)}},
		{Revision: gone, Changes: []topology.Change{{KV: topology.KV{Key: s.key("w/a"), ModRevision: gone}, Deleted: true}}},
	}
	var got []topology.Events
	for range want {
		got = append(got, s.next(t, watch))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func testWatchPast(t *testing.T, s *suite) {
	s.put(t, "a", "1")
	second := s.put(t, "a", "2")
	third := s.put(t, "a", "3")
	watch := s.store.Watch(s.ctx, s.prefix, second)
	if got := []int64{s.next(t, watch).Revision, s.next(t, watch).Revision}; !cmp.Equal(got, []int64{second, third}) {
		t.Errorf("a watch from revision %d gives %v", second, got)
	}
}

func testWatchCompacted(t *testing.T, s *suite) {
	first := s.put(t, "a", "1")
	last := s.put(t, "a", "2")
	s.Compact(t, s.store, last)
	watch := s.store.Watch(s.ctx, s.prefix, first)
	if events := s.next(t, watch); !errors.Is(events.Err, topology.ErrCompacted) {
		t.Fatalf("a watch of what is compacted gives %+v", events)
	}
	if events, ok := <-watch; ok {
		t.Errorf("the broken watch goes on with %+v", events)
	}
	s.put(t, "a", "3")
	if events := s.next(t, s.store.Watch(s.ctx, s.prefix, last+1)); events.Err != nil {
		t.Errorf("a watch of what is kept: %v", events.Err)
	}
}

func testWatchEnds(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	watch := s.store.Watch(ctx, s.prefix, s.revision(t)+1)
	s.put(t, "a", "1")
	s.next(t, watch)
	cancel()
	for events := range watch {
		if events.Err == nil {
			t.Errorf("event %+v after the end", events)
		}
	}
}
