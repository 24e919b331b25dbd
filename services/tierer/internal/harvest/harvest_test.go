package harvest_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/tierer/internal/harvest"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errWork = errors.New("it does not work")

// world is a View with one broker, that broker, and the worker.
type world struct {
	mu      sync.Mutex
	view    *topology.View
	changed chan struct{}
	work    []leader.Work
	polls   map[partition.Incarnation]int
	asked   chan struct{} // one for each poll
	at      map[partition.ID]int
	done    map[partition.ID]int
	most    int // partitions at work at a time
	fail    int // so many fail
	hold    chan struct{}
	shut    error
}

func newWorld(tierers ...string) *world {
	w := &world{
		view: viewOf(tierers...), changed: make(chan struct{}), polls: map[partition.Incarnation]int{}, asked: make(chan struct{}, 1_000_000),
		at: map[partition.ID]int{}, done: map[partition.ID]int{},
	}
	w.view.Brokers = map[partition.NodeID]topology.Broker{}
	w.broker(1)
	return w
}

// broker lets the broker live in an incarnation; 0 = not at all.
func (w *world) broker(incarnation partition.Incarnation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next := *w.view
	next.Brokers = map[partition.NodeID]topology.Broker{}
	if incarnation > 0 {
		next.Brokers[1] = topology.Broker{Live: &topology.Versioned[topology.Live]{Value: topology.Live{Incarnation: incarnation}}}
	}
	w.view = &next
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) View() *topology.View {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.view
}

func (w *world) Changed() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

func (w *world) Harvest(context.Context, partition.NodeID, time.Duration, int) ([]leader.Work, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if live := w.view.Brokers[1].Live; live != nil {
		w.polls[live.Value.Incarnation]++
	}
	w.asked <- struct{}{}
	return w.work, nil
}

func (w *world) Do(ctx context.Context, work leader.Work) error {
	w.mu.Lock()
	w.at[work.Partition]++
	if w.at[work.Partition] > 1 {
		w.most = 1 << 20 // one partition twice at a time
	}
	w.most = max(w.most, len(w.at))
	hold := w.hold
	w.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.at, work.Partition)
	w.done[work.Partition]++
	if w.fail > 0 {
		w.fail--
		return errWork
	}
	return nil
}

func (w *world) gate() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shut
}

// run runs a harvester until the test ends; it names all partitions as work.
func (w *world) run(t *testing.T, partitions, workers int) {
	t.Helper()
	for i := range partitions {
		w.work = append(w.work, leader.Work{Partition: idOf(i)})
	}
	h := harvest.New(harvest.Config{
		Views: w, Leader: w, Worker: w, Gate: w.gate, Own: "t1", Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
		Limits: harvest.Limits{
			Wait: time.Second, Segments: 1, Workers: workers, PaceFirst: time.Millisecond, PaceLast: 5 * time.Millisecond,
			RetryFirst: time.Millisecond, RetryLast: 5 * time.Millisecond,
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// after waits for so many more polls.
func (w *world) after(t *testing.T, polls int) {
	t.Helper()
	for range polls {
		select {
		case <-w.asked:
		case <-t.Context().Done():
			t.Fatal("no poll comes")
		}
	}
}

// is looks at the world under its lock.
func (w *world) is(look func() bool) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return look()
}

func TestOnlyTheOwnPartitionsAreWorkedOn(t *testing.T) {
	w := newWorld("t1", "t2", "t3")
	w.run(t, 60, 100)
	w.after(t, 10)
	for i := range 60 {
		if own := harvest.Owner(w.View(), idOf(i)) == "t1"; own != w.is(func() bool { return w.done[idOf(i)] > 0 }) {
			t.Errorf("partition %d is ours: %v", i, own)
		}
	}
}

func TestAPartitionIsWorkedOnByOne(t *testing.T) {
	w := newWorld("t1")
	w.hold = make(chan struct{})
	w.run(t, 2, 10)
	w.after(t, 10)
	if !w.is(func() bool { return w.most == 2 }) {
		t.Errorf("most is %d", w.most)
	}
	close(w.hold)
}

func TestPartitionsWaitForAPlace(t *testing.T) {
	w := newWorld("t1")
	w.hold = make(chan struct{})
	w.run(t, 10, 3)
	w.after(t, 10)
	if !w.is(func() bool { return w.most == 3 }) {
		t.Errorf("%d partitions are worked on", w.most)
	}
	close(w.hold)
	for !w.is(func() bool { return len(w.done) == 10 }) {
		w.after(t, 1)
	}
	if !w.is(func() bool { return w.most == 3 }) {
		t.Errorf("%d partitions were worked on at a time", w.most)
	}
}

func TestWhatFailedIsTriedAgain(t *testing.T) {
	w := newWorld("t1")
	w.fail = 5
	w.run(t, 1, 3)
	for !w.is(func() bool { return w.fail == 0 && w.done[idOf(0)] > 5 }) {
		w.after(t, 1)
	}
}

func TestNothingIsBegunBehindAShutGate(t *testing.T) {
	w := newWorld("t1")
	w.shut = errWork
	w.run(t, 3, 3)
	w.after(t, 10)
	if !w.is(func() bool { return len(w.done) == 0 }) {
		t.Error("work was begun")
	}
	w.mu.Lock()
	w.shut = nil
	w.mu.Unlock()
	for !w.is(func() bool { return len(w.done) == 3 }) {
		w.after(t, 1)
	}
}

func TestBrokersComeAndGo(t *testing.T) {
	w := newWorld("t1")
	w.run(t, 0, 3)
	w.after(t, 3)
	w.broker(2)
	for !w.is(func() bool { return w.polls[2] > 2 }) {
		w.after(t, 1)
	}
	w.broker(0)
	w.broker(3)
	for !w.is(func() bool { return w.polls[3] > 2 }) {
		w.after(t, 1)
	}
}
