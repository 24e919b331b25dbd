package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs"
)

// BeatTimeout is how long a heartbeat may take.
const BeatTimeout = time.Second

// slowAfter is how long heartbeats may be late before the disk counts as slow.
const slowAfter = 5 * time.Second

// renewals in a TTL.
const renewals = 4

// Config is what a Lease is made of. All fields are needed.
type Config struct {
	Store   topology.Store
	Dir     vfs.FS // the data directory
	Params  topology.RegisterParams
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Lease is a broker's registration that goes with its disk.
type Lease struct {
	cfg     Config
	beat    *beat
	reg     *topology.Registration
	beats   prometheus.Histogram
	skipped prometheus.Counter
	pending chan error                // of the heartbeat under way; nil = none
	late    atomic.Pointer[time.Time] // when the first of the late heartbeats began, and that is logged; nil = the last was in time
	failing bool                      // the store does not answer, and that has been logged
}

// New opens the heartbeat file. Close ends what it began.
func New(cfg Config) (*Lease, error) {
	l := &Lease{
		cfg: cfg,
		beats: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sq_broker_heartbeat_seconds", Help: "Time of writing, syncing and reading back the heartbeat of the data disk.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		skipped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_lease_skips_total", Help: "Renewals of the broker's lease that were left out because the data disk did not answer in time.",
		}),
	}
	if err := telemetry.Register(cfg.Metrics, l.beats, l.skipped); err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	beat, err := openBeat(cfg.Dir)
	if err != nil {
		return nil, &fault.Error{Kind: fault.DiskPoisoned, Op: "prove the data disk", Err: err}
	}
	l.beat = beat
	return l, nil
}

// Take proves the disk and registers. It may be called again where the store did not answer. Errors: fault.DiskPoisoned, fault.Unavailable
// (disk or store do not answer), fault.Conflict.
func (l *Lease) Take(ctx context.Context) error {
	alive, err := l.prove(ctx)
	if err == nil && !alive {
		err = fault.Errorf(fault.Unavailable, "data disk did not write, sync and read back %d bytes within %v", blockBytes, BeatTimeout)
	}
	if err != nil {
		return err
	}
	l.reg, err = topology.Register(ctx, l.cfg.Store, l.cfg.Params)
	return err //nolint:wrapcheck // says what was attempted.
}

// Live gives what stands in the store.
func (l *Lease) Live() topology.Live { return l.reg.Live() }

// Run renews what was taken until ctx ends, and returns nil then.
func (l *Lease) Run(ctx context.Context) error {
	timer := l.cfg.Clock.NewTimer(l.interval())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.reg.Lost():
			return fault.Errorf(fault.Conflict, "a later life of broker %d has registered", l.cfg.Params.Live.Node)
		case <-timer.C():
		}
		if err := l.step(ctx); err != nil {
			return err
		}
		timer.Reset(l.interval())
	}
}

// Slow tells whether the disk has taken more than BeatTimeout for every heartbeat of the last 5 s: it is to lead nothing then.
func (l *Lease) Slow() bool {
	since := l.late.Load()
	return since != nil && l.cfg.Clock.Now().Sub(*since) >= slowAfter
}

func (l *Lease) interval() time.Duration { return l.cfg.Params.TTL / renewals }

// step renews if the disk answers.
func (l *Lease) step(ctx context.Context) error {
	begun := l.cfg.Clock.Now()
	alive, err := l.prove(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	if !alive {
		l.skipped.Inc()
		if l.late.CompareAndSwap(nil, &begun) {
			l.cfg.Log.Error("data disk does not answer, lease is not renewed", "timeout", BeatTimeout)
		}
		return nil
	}
	if l.late.Swap(nil) != nil {
		l.cfg.Log.Info("data disk answers again")
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.Params.TTL)
	defer cancel()
	err = l.reg.Renew(ctx)
	switch {
	case fault.Is(err, fault.Conflict):
		return err //nolint:wrapcheck // says what was attempted.
	case err != nil && !l.failing:
		l.cfg.Log.Warn("cannot renew the broker's lease, trying on", "err", err)
	case err == nil && l.failing:
		l.cfg.Log.Info("the broker's lease is renewed again")
	}
	l.failing = err != nil
	return nil
}

// prove does a heartbeat; false if it is not done in time. One that was late before is waited for, but only a new one proves anything.
func (l *Lease) prove(ctx context.Context) (alive bool, err error) {
	timer := l.cfg.Clock.NewTimer(BeatTimeout)
	defer timer.Stop()
	for {
		fresh := l.pending == nil
		if fresh {
			l.start()
		}
		select {
		case err := <-l.pending:
			l.pending = nil
			if err != nil {
				return false, &fault.Error{Kind: fault.DiskPoisoned, Op: "prove the data disk", Err: err}
			}
			if fresh {
				return true, nil
			}
		case <-timer.C():
			return false, nil
		case <-ctx.Done():
			return false, nil
		}
	}
}

// start begins a heartbeat, which prove or closeBeat joins.
func (l *Lease) start() {
	pending := make(chan error, 1)
	l.pending = pending
	begun := l.cfg.Clock.Now()
	go func() {
		err := l.beat.once()
		l.beats.Observe(l.cfg.Clock.Now().Sub(begun).Seconds())
		pending <- err
	}()
}

// Close revokes the lease, so that others know at once, and lets go of the file. A disk that hangs is not waited for.
func (l *Lease) Close(ctx context.Context) error {
	var err error
	if l.reg != nil {
		err = l.reg.Close(ctx)
	}
	return errors.Join(err, l.closeBeat())
}

func (l *Lease) closeBeat() error {
	if l.pending != nil {
		timer := l.cfg.Clock.NewTimer(BeatTimeout)
		defer timer.Stop()
		select {
		case err := <-l.pending:
			l.pending = nil
			if err != nil {
				return fault.Wrap("prove the data disk", err)
			}
		case <-timer.C():
			return fault.Errorf(fault.Unavailable, "data disk does not answer")
		}
	}
	if err := l.beat.close(); err != nil {
		return fault.Wrap("close heartbeat", err)
	}
	return nil
}
