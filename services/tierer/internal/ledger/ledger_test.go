package ledger_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
	"github.com/seedqueue/sq/services/tierer/internal/ledger"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	cluster = partition.UUIDOf(1, 1)
	id      = partition.ID{Topic: partition.UUIDOf(2, 2), Index: 5}
)

// source is a leader with a table.
type source struct {
	mu    sync.Mutex
	table manifest.Table
	page  int // entries in an answer; 0 = as asked
	asked []partition.Offset
	gate  chan struct{}
}

func (s *source) Table(_ context.Context, id partition.ID, since uint64, from partition.Offset, most int) (leader.Table, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, from)
	answer := leader.Table{Epoch: s.table.Epoch, Version: s.table.Version, TierEnd: s.table.TierEnd, LogStart: s.table.LogStart}
	if since >= s.table.Version {
		return answer, nil
	}
	if s.page > 0 {
		most = s.page
	}
	for _, segment := range s.table.Segments {
		if segment.End <= from {
			continue
		}
		if len(answer.Segments) == most {
			answer.More = true
			break
		}
		segment.Key = segment.KeyIn(cluster, id)
		answer.Segments = append(answer.Segments, segment)
	}
	return answer, nil
}

func (s *source) grow(segments int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range segments {
		end := s.table.TierEnd
		s.table.Segments = append(s.table.Segments, manifest.Segment{Base: end, End: end + 10, Size: 1, ObjectSize: 2})
		s.table.TierEnd += 10
	}
	s.table.Version++
}

func newLedger(s *source, limit int) *ledger.Ledger {
	return ledger.New(s, func() partition.UUID { return cluster }, limit)
}

func refresh(t *testing.T, l *ledger.Ledger, s *source) *manifest.Table {
	t.Helper()
	got, err := l.Refresh(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	want := s.table
	want.Partition = id
	for len(want.Segments) > 0 && want.Segments[0].End <= want.LogStart {
		want.Segments = want.Segments[1:]
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
	if l.Table(id) != got {
		t.Error("it was not kept")
	}
	return got
}

func TestRefreshAsksForWhatIsNew(t *testing.T) {
	s := &source{table: manifest.Table{Epoch: 1}, page: 3}
	l := newLedger(s, 10)
	if l.Table(id) != nil {
		t.Error("a table that nobody asked for")
	}
	s.grow(7)
	first := refresh(t, l, s)
	s.grow(2)
	refresh(t, l, s)
	refresh(t, l, s)
	if diff := cmp.Diff([]partition.Offset{0, 30, 60, 70, 90}, s.asked); diff != "" {
		t.Errorf("asked from (-want +got):\n%s", diff)
	}
	if len(first.Segments) != 7 {
		t.Errorf("a table that a reader holds has now %d segments", len(first.Segments))
	}
	s.table.LogStart = 35
	s.table.Version++
	if got := refresh(t, l, s); got.Segments[0].Base != 30 {
		t.Errorf("the first segment is at %d", got.Segments[0].Base)
	}
}

func TestForeignKeysAreKept(t *testing.T) {
	s := &source{table: manifest.Table{Epoch: 1}}
	s.grow(2)
	s.table.Segments[0].Key = "of another cluster"
	refresh(t, newLedger(s, 10), s)
}

// TestTableNeverGoesBack has a deposed leader answer.
func TestTableNeverGoesBack(t *testing.T) {
	s := &source{table: manifest.Table{Epoch: 2}}
	s.grow(2)
	s.grow(1)
	l := newLedger(s, 10)
	good := refresh(t, l, s)
	old := s.table
	s.table.Epoch = 1
	if _, err := l.Refresh(t.Context(), id); !fault.Is(err, fault.StaleEpoch) {
		t.Errorf("an older epoch: %v", err)
	}
	s.table = manifest.Table{Epoch: 2}
	s.grow(1)
	s.table.Version = old.Version - 1
	if _, err := l.Refresh(t.Context(), id); !fault.Is(err, fault.StaleEpoch) && !fault.Is(err, fault.Conflict) {
		t.Errorf("an older version: %v", err)
	}
	if l.Table(id) != good {
		t.Error("the table that was known is gone")
	}
	s.table.Epoch, s.table.Version = 3, 1 // a later epoch may have lost some of it
	refresh(t, l, s)
}

func TestBadTable(t *testing.T) {
	s := &source{table: manifest.Table{Epoch: 1}}
	s.grow(3)
	s.table.Segments = append(s.table.Segments[:1:1], s.table.Segments[2]) // a hole
	if _, err := newLedger(s, 10).Refresh(t.Context(), id); !fault.Is(err, fault.Corrupt) {
		t.Errorf("error %v", err)
	}
}

func TestCallersShareAQuestion(t *testing.T) {
	s := &source{table: manifest.Table{Epoch: 1}, gate: make(chan struct{})}
	s.grow(1)
	l := newLedger(s, 10)
	var tasks sync.WaitGroup
	for range 20 {
		tasks.Go(func() {
			if _, err := l.Refresh(t.Context(), id); err != nil {
				t.Error(err)
			}
		})
	}
	s.gate <- struct{}{} // the first question; the others wait for it and share the next
	close(s.gate)
	tasks.Wait()
	if len(s.asked) > 20 || len(s.asked) == 0 {
		t.Errorf("%d questions", len(s.asked))
	}
}

func TestTheOldestIsForgotten(t *testing.T) {
	s := &source{table: manifest.Table{Epoch: 1}}
	s.grow(1)
	l := newLedger(s, 2)
	at := func(i partition.Index) partition.ID { return partition.ID{Topic: id.Topic, Index: i} }
	for _, i := range []partition.Index{1, 2} {
		if _, err := l.Refresh(t.Context(), at(i)); err != nil {
			t.Fatal(err)
		}
	}
	l.Table(at(1))
	if _, err := l.Refresh(t.Context(), at(3)); err != nil {
		t.Fatal(err)
	}
	if l.Table(at(1)) == nil || l.Table(at(2)) != nil || l.Table(at(3)) == nil {
		t.Error("not the one that was used longest ago is forgotten")
	}
}
