package election

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// ErrStandby is the answer of a coordinator that is not the active one. Its kind is fault.Unavailable.
var ErrStandby error = fault.Errorf(fault.Unavailable, "this coordinator stands by: ask the active one")

const (
	// retryEvery is the wait after a call that the store did not answer.
	retryEvery = 250 * time.Millisecond
	// resignTimeout bounds the revocation of the lease at the end.
	resignTimeout = 2 * time.Second
)

// Config of an Election.
type Config struct {
	Store topology.Store
	Clock clock.Clock
	Log   *slog.Logger
	// Live is written to the key; Incarnation and Lease are filled in.
	Live topology.Live
	// TTL of the lease. It is renewed every quarter of it.
	TTL time.Duration
	// OnChange is told when this process becomes active and when it no longer is. May be nil.
	OnChange func(active bool)
}

// Election is a candidate.
type Election struct {
	cfg   Config
	doubt chan struct{} // capacity 1: look at the key now

	mu struct {
		sync.Mutex

		term  Term      // zero = standing by
		until time.Time // the term's end if no renewal succeeds
	}
}

// Term is one tenure of the office.
type Term struct {
	// Revision is the CreateRevision of /sq/coord.
	Revision int64
}

// New makes a candidate; Run lets it stand.
func New(cfg Config) *Election {
	if cfg.OnChange == nil {
		cfg.OnChange = func(bool) {}
	}
	return &Election{cfg: cfg, doubt: make(chan struct{}, 1)}
}

// Guard gives the compare that every write of the active coordinator carries, or ErrStandby.
func (e *Election) Guard() (topology.Compare, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.term == (Term{}) || !e.cfg.Clock.Now().Before(e.mu.until) {
		return topology.Compare{}, ErrStandby
	}
	return topology.Compare{Key: topology.CoordinatorKey, Target: topology.CompareCreateRevision, Want: e.mu.term.Revision}, nil
}

// Doubt makes the holder look whether it still is one: a guarded write has failed.
func (e *Election) Doubt() {
	select {
	case e.doubt <- struct{}{}:
	default:
	}
}

// Run campaigns and leads by turns until ctx ends. lead runs while this process is the active one, under a context that ends with the
// term; when it returns an error before that, Run resigns and returns it.
func (e *Election) Run(ctx context.Context, lead func(context.Context) error) error {
	c := &campaign{cfg: e.cfg}
	for ctx.Err() == nil {
		won, ok := c.run(ctx)
		if !ok {
			break
		}
		if err := e.hold(ctx, won, lead); err != nil {
			return err
		}
	}
	return nil
}

// hold leads and renews until the term ends; then it has joined what led. The error is lead's own.
func (e *Election) hold(ctx context.Context, won tenure, lead func(context.Context) error) error {
	e.begin(won)
	e.cfg.Log.Info("elected coordinator", "revision", won.term.Revision, "incarnation", uint64(won.incarnation))
	leadCtx, cancel := context.WithCancel(ctx)
	led := make(chan error, 1)
	go func() { led <- lead(leadCtx) }()
	cause := e.renewUntilLost(leadCtx, won, led)
	e.end()
	cancel()
	own, byItself := errors.AsType[ledError](cause)
	if !byItself {
		if err := <-led; err != nil { // because its context ended
			e.cfg.Log.Debug("leading ended", "err", err)
		}
	}
	e.resign(ctx, won)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // it ended because it was told to.
	}
	e.cfg.Log.Warn("lost the election", "revision", won.term.Revision, "err", cause)
	if byItself {
		return own.err
	}
	return nil
}

// ledError says that lead returned by itself.
type ledError struct{ err error }

func (e ledError) Error() string { return fmt.Sprintf("leading ended: %v", e.err) }

func (e *Election) renewUntilLost(ctx context.Context, won tenure, led <-chan error) error {
	every := e.cfg.TTL / 4
	timer := e.cfg.Clock.NewTimer(every)
	defer timer.Stop()
	for {
		select {
		case err := <-led:
			return ledError{err}
		case <-ctx.Done():
			return ctx.Err()
		case <-e.doubt:
			if err := e.verify(ctx, won); err != nil {
				return err
			}
		case <-timer.C():
			if err := e.renew(ctx, won); err != nil {
				return err
			}
			timer.Reset(every)
		}
	}
}

// renew prolongs the term; an error ends it. A store that does not answer is no error before the term's own end.
func (e *Election) renew(ctx context.Context, won tenure) error {
	asked := e.cfg.Clock.Now()
	left := e.left(asked)
	if left <= 0 {
		return errors.New("the lease was not renewed in time")
	}
	callCtx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	err := e.cfg.Store.KeepAliveOnce(callCtx, won.lease)
	switch {
	case err == nil:
		e.mu.Lock()
		e.mu.until = asked.Add(e.cfg.TTL)
		e.mu.Unlock()
		return nil
	case errors.Is(err, topology.ErrLeaseNotFound):
		return err
	case e.left(e.cfg.Clock.Now()) <= 0:
		return fmt.Errorf("the lease was not renewed in time: %w", err)
	default:
		return nil
	}
}

// verify reads the key; an error says that it is another's.
func (e *Election) verify(ctx context.Context, won tenure) error {
	callCtx, cancel := context.WithTimeout(ctx, e.cfg.TTL/4)
	defer cancel()
	kv, ok, _, err := e.cfg.Store.Get(callCtx, topology.CoordinatorKey)
	if err != nil {
		return nil // nothing is known; the renewals decide
	}
	if !ok || kv.CreateRevision != won.term.Revision {
		return errors.New("the key is another's")
	}
	return nil
}

func (e *Election) left(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.until.Sub(now)
}

func (e *Election) begin(won tenure) {
	e.mu.Lock()
	e.mu.term, e.mu.until = won.term, won.until
	e.mu.Unlock()
	select { // a doubt about an earlier term
	case <-e.doubt:
	default:
	}
	e.cfg.OnChange(true)
}

func (e *Election) end() {
	e.mu.Lock()
	e.mu.term = Term{}
	e.mu.Unlock()
	e.cfg.OnChange(false)
}

// resign lets another be elected without waiting for the lease.
func (e *Election) resign(ctx context.Context, won tenure) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), resignTimeout)
	defer cancel()
	if err := e.cfg.Store.Revoke(ctx, won.lease); err != nil && !errors.Is(err, topology.ErrLeaseNotFound) {
		e.cfg.Log.Debug("revoke the lease of a past term", "err", err)
	}
}

// tenure is a term with what its holder needs to keep it.
type tenure struct {
	term        Term
	lease       topology.LeaseID
	incarnation partition.Incarnation
	until       time.Time
}
