package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/moves"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

const (
	// tick is the longest time without a plan: graces run out without an event.
	tick = time.Second
	// tickMoving is the same while members change: their leaders are asked.
	tickMoving = 250 * time.Millisecond
	// surveyTimeout bounds the questions before a plan. Missing answers do not stop it.
	surveyTimeout = 300 * time.Millisecond
	// learnersAsked bounds the questions about learners, in times of the moves at once.
	learnersAsked = 4
	// pauseMax is how late a plan may be before what it rests on is read anew.
	pauseMax = time.Second
	// changesPerTxn and brokersPerTxn keep a Txn within etcd's 128 compares.
	changesPerTxn = 100
	brokersPerTxn = 20
	// showTimeout is how long the view may lag behind an own write before it is read anew.
	showTimeout = time.Second
)

// errStale ends a round whose plan has grown old.
var errStale = errors.New("the plan has grown old")

// Office is the right to write, which an election gives.
type Office interface {
	Guard() (topology.Compare, error)
	Doubt()
}

// Views is the metadata as this process follows it.
type Views interface {
	View() *topology.View
	Changed() <-chan struct{}
	WaitFor(ctx context.Context, seen func(*topology.View) bool) (*topology.View, error)
	Refresh(ctx context.Context) error
}

// Config of a Loop.
type Config struct {
	Store   topology.Store
	Views   Views
	Office  Office
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics *Metrics
	Planner *Planner
	Reports *reports.Book
	Survey  Survey
}

// Survey asks brokers.
type Survey interface {
	Positions(ctx context.Context, questions []survey.Question) (survey.Positions, map[partition.NodeID]error)
	Progress(ctx context.Context, leader partition.NodeID, id partition.ID) (survey.Progress, error)
}

// Loop plans and carries out, again and again.
type Loop struct {
	cfg  Config
	tick time.Duration // until the next plan, if nothing changes
}

// New makes a loop.
func New(cfg Config) *Loop { return &Loop{cfg: cfg, tick: tick} }

// Run reconciles until ctx ends, with a fresh view at first. It returns nil.
func (l *Loop) Run(ctx context.Context) error {
	defer l.cfg.Metrics.show(Totals{})
	fresh := false
	for ctx.Err() == nil {
		changed, reported := l.cfg.Views.Changed(), l.cfg.Reports.Changed()
		if !fresh {
			if err := l.cfg.Views.Refresh(ctx); err != nil {
				l.cfg.Log.Warn("read the topology", "err", err)
				l.wait(ctx, nil, nil)
				continue
			}
		}
		if err := l.Round(ctx); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errStale) {
				l.cfg.Log.Info("reconcile again", "err", err)
			}
			fresh = false
			l.wait(ctx, changed, reported)
			continue
		}
		fresh = !l.wait(ctx, changed, reported)
	}
	return nil
}

// wait returns at the next change or tick. It tells whether the process stood still for longer than it asked for: what it saw and heard
// before is of another time then.
func (l *Loop) wait(ctx context.Context, changed, reported <-chan struct{}) (paused bool) {
	from := l.cfg.Clock.Now()
	timer := l.cfg.Clock.NewTimer(l.tick)
	defer timer.Stop()
	select {
	case <-changed:
	case <-reported:
	case <-timer.C():
	case <-ctx.Done():
	}
	if l.cfg.Clock.Now().Sub(from) <= l.tick+pauseMax {
		return false
	}
	l.cfg.Reports.Forget()
	l.cfg.Metrics.rereads.Inc()
	return true
}

// Round plans from the current view and carries the plan out. An error says that the view must be read anew before the next.
func (l *Loop) Round(ctx context.Context) error {
	v := l.cfg.Views.View()
	now := l.cfg.Clock.Now()
	round := l.cfg.Planner.Look(v, l.cfg.Reports.Now(now), now)
	l.cfg.Metrics.show(round.Totals)
	l.tick = tick
	if round.Totals.MovesStarted > 0 {
		l.tick = tickMoving
	}
	positions, progress := l.ask(ctx, round)
	plan := round.Decide(positions, progress)
	w := &writer{loop: l, view: v, until: l.cfg.Clock.Now().Add(pauseMax)}
	if l.cfg.Clock.Now().Sub(now) > surveyTimeout+pauseMax {
		l.cfg.Reports.Forget()
		return errStale
	}
	for _, batch := range batches(plan.Changes) {
		if err := w.change(ctx, batch); err != nil {
			return err
		}
	}
	for _, c := range plan.Collections {
		if err := w.collect(ctx, c); err != nil {
			return err
		}
	}
	if w.raced {
		return fault.Errorf(fault.Conflict, "others wrote at the same time")
	}
	return l.seen(ctx, w.revision)
}

// ask puts the round's questions to the brokers, within surveyTimeout.
func (l *Loop) ask(ctx context.Context, r *Round) (survey.Positions, map[partition.ID]survey.Progress) {
	if len(r.Questions) == 0 && len(r.Learners) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	progress := map[partition.ID]survey.Progress{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	limit := make(chan struct{}, l.cfg.Planner.MovesAtOnce)
	for _, part := range r.Learners {
		asked.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			told, err := l.progress(ctx, part)
			if err != nil {
				l.cfg.Log.Debug("ask how far learners are", "partition", part.ID.String(), "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			progress[part.ID] = told
		})
	}
	positions, failed := l.cfg.Survey.Positions(ctx, r.Questions)
	for broker, err := range failed {
		l.cfg.Log.Debug("ask where replicas stand", "node", uint64(broker), "err", err)
	}
	asked.Wait()
	return positions, progress
}

func (l *Loop) progress(ctx context.Context, part moves.Partition) (survey.Progress, error) {
	return l.cfg.Survey.Progress(ctx, part.Assignment.Value.Leader.Broker, part.ID) //nolint:wrapcheck // says what was attempted.
}

// seen waits until the view shows own writes, lest they are planned again.
func (l *Loop) seen(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	_, err := l.cfg.Views.WaitFor(ctx, func(v *topology.View) bool { return v.Revision >= revision })
	return fault.Wrap("wait for own writes", err)
}
