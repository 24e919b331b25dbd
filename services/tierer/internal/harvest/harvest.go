package harvest

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
)

// Views is who follows the cluster's metadata: topology.Follower.
type Views interface {
	View() *topology.View
	Changed() <-chan struct{}
}

// Leader is asked: leader.Pool.
type Leader interface {
	Harvest(ctx context.Context, node partition.NodeID, wait time.Duration, maxSegments int) ([]leader.Work, error)
}

// Worker does what a partition needs. An error means that it is to be tried again later.
type Worker interface {
	Do(ctx context.Context, work leader.Work) error
}

// Limits of a Harvester.
type Limits struct {
	Wait       time.Duration // of a broker for work
	Segments   int           // of a partition at a time
	Workers    int           // partitions at a time
	PaceFirst  time.Duration // between polls of a broker that had nothing that could be done
	PaceLast   time.Duration
	RetryFirst time.Duration // of a partition that failed, or a broker that did not answer
	RetryLast  time.Duration
}

// Config of a Harvester.
type Config struct {
	Views  Views
	Leader Leader
	Worker Worker
	// Gate is nil while work can be done at all.
	Gate   func() error
	Own    string // id of this tierer
	Clock  clock.Clock
	Limits Limits
	Log    *slog.Logger
}

// Harvester polls brokers and feeds a worker.
type Harvester struct {
	cfg   Config
	tasks sync.WaitGroup // polls and partitions at work
	mu    struct {
		sync.Mutex

		states map[partition.ID]*state
		busy   int
	}
}

// state is a partition that is worked on or has failed.
type state struct {
	busy   bool
	failed *backoff.Backoff // nil = it has not
	until  time.Time        // left alone
}

// New makes a harvester.
func New(cfg Config) *Harvester {
	h := &Harvester{cfg: cfg}
	h.mu.states = map[partition.ID]*state{}
	return h
}

// poller is the goroutine that polls one broker in one incarnation.
type poller struct {
	incarnation partition.Incarnation
	stop        context.CancelFunc
}

// Run polls until ctx ends, waits for the work in hand and returns nil.
func (h *Harvester) Run(ctx context.Context) error {
	pollers := map[partition.NodeID]poller{}
	defer h.tasks.Wait()
	for ctx.Err() == nil {
		changed := h.cfg.Views.Changed()
		view := h.cfg.Views.View()
		for node, p := range pollers {
			if live := view.Brokers[node].Live; live == nil || live.Value.Incarnation != p.incarnation {
				p.stop()
				delete(pollers, node)
			}
		}
		for node, broker := range view.Brokers {
			if _, polled := pollers[node]; polled || broker.Live == nil {
				continue
			}
			own, stop := context.WithCancel(ctx)
			pollers[node] = poller{incarnation: broker.Live.Value.Incarnation, stop: stop}
			h.tasks.Go(func() {
				defer stop()
				h.poll(ctx, own, node)
			})
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	for _, p := range pollers {
		p.stop()
	}
	return nil
}

// poll asks a broker again and again until own ends. The work that it begins goes on until ctx ends.
func (h *Harvester) poll(ctx, own context.Context, node partition.NodeID) {
	limits := h.cfg.Limits
	failed := backoff.New(h.cfg.Clock, nil, backoff.Policy{Initial: limits.RetryFirst, Max: limits.RetryLast})
	pace := backoff.New(h.cfg.Clock, nil, backoff.Policy{Initial: limits.PaceFirst, Max: limits.PaceLast})
	silent := false
	for own.Err() == nil {
		all, err := h.cfg.Leader.Harvest(own, node, limits.Wait, limits.Segments)
		if err != nil {
			if own.Err() == nil && !silent {
				silent = true
				h.cfg.Log.WarnContext(own, "cannot ask broker for sealed segments", "node", node, "err", err)
			}
			_ = failed.Wait(own) // the loop looks at own
			continue
		}
		failed.Reset()
		silent = false
		begun := 0
		for _, work := range all {
			if Owner(h.cfg.Views.View(), work.Partition) == h.cfg.Own && h.begin(ctx, work) {
				begun++
			}
		}
		if begun > 0 || len(all) == 0 {
			pace.Reset() // what has begun is named as work until it is done: a short wait
		}
		_ = pace.Wait(own) // the loop looks at own
	}
}

// begin starts to work on a partition, where that is possible now.
func (h *Harvester) begin(ctx context.Context, work leader.Work) bool {
	if h.cfg.Gate() != nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.mu.states[work.Partition]
	if s == nil {
		s = &state{}
	}
	if s.busy || h.mu.busy >= h.cfg.Limits.Workers || h.cfg.Clock.Now().Before(s.until) {
		return false
	}
	s.busy = true
	h.mu.busy++
	h.mu.states[work.Partition] = s
	h.tasks.Go(func() { h.end(ctx, work.Partition, h.cfg.Worker.Do(ctx, work)) })
	return true
}

// end takes note of what became of the work.
func (h *Harvester) end(ctx context.Context, id partition.ID, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.mu.states[id]
	s.busy = false
	h.mu.busy--
	if err == nil {
		delete(h.mu.states, id)
		return
	}
	if s.failed == nil {
		s.failed = backoff.New(h.cfg.Clock, nil, backoff.Policy{Initial: h.cfg.Limits.RetryFirst, Max: h.cfg.Limits.RetryLast})
	}
	wait := s.failed.Next()
	s.until = h.cfg.Clock.Now().Add(wait)
	if ctx.Err() != nil {
		return
	}
	level := slog.LevelWarn
	if fault.Is(err, fault.Corrupt) {
		level = slog.LevelError
	}
	h.cfg.Log.Log(ctx, level, "cannot tier partition, trying again", "partition", id.String(), "retry", wait, "err", err)
}
