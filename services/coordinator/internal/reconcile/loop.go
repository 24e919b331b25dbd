package reconcile

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
)

const (
	// tick is the longest time without a plan: graces run out without an event.
	tick = time.Second
	// pauseMax is how late a plan may be before what it rests on is read anew.
	pauseMax = time.Second
	// nominationsPerTxn and brokersPerTxn keep a Txn within etcd's 128 compares.
	nominationsPerTxn = 100
	brokersPerTxn     = 20
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
}

// Loop plans and carries out, again and again.
type Loop struct {
	cfg Config
}

// New makes a loop.
func New(cfg Config) *Loop { return &Loop{cfg: cfg} }

// Run reconciles until ctx ends, with a fresh view at first. It returns nil.
func (l *Loop) Run(ctx context.Context) error {
	fresh := false
	for ctx.Err() == nil {
		changed := l.cfg.Views.Changed()
		if !fresh {
			if err := l.cfg.Views.Refresh(ctx); err != nil {
				l.cfg.Log.Warn("read the topology", "err", err)
				l.wait(ctx, nil)
				continue
			}
		}
		if err := l.Round(ctx); err != nil {
			if ctx.Err() == nil && !errors.Is(err, errStale) {
				l.cfg.Log.Info("reconcile again", "err", err)
			}
			fresh = false
			l.wait(ctx, changed)
			continue
		}
		fresh = !l.wait(ctx, changed)
	}
	return nil
}

// wait returns at the next change or tick. It tells whether the process stood still for longer than it asked for.
func (l *Loop) wait(ctx context.Context, changed <-chan struct{}) (paused bool) {
	from := l.cfg.Clock.Now()
	timer := l.cfg.Clock.NewTimer(tick)
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C():
	case <-ctx.Done():
	}
	if l.cfg.Clock.Now().Sub(from) <= tick+pauseMax {
		return false
	}
	l.cfg.Metrics.rereads.Inc()
	return true
}

// Round plans from the current view and carries the plan out. An error says that the view must be read anew before the next.
func (l *Loop) Round(ctx context.Context) error {
	start := l.cfg.Clock.Now()
	v := l.cfg.Views.View()
	plan := l.cfg.Planner.Plan(v, start)
	w := &writer{loop: l, view: v, until: start.Add(pauseMax)}
	for _, batch := range batches(plan.Nominations) {
		if err := w.nominate(ctx, batch); err != nil {
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

// seen waits until the view shows own writes, lest they are planned again.
func (l *Loop) seen(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeout(ctx, showTimeout)
	defer cancel()
	_, err := l.cfg.Views.WaitFor(ctx, func(v *topology.View) bool { return v.Revision >= revision })
	return fault.Wrap("wait for own writes", err)
}
