package probe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/objstore"
)

const (
	retryFirst = 500 * time.Millisecond
	retryLast  = 10 * time.Second
	// checkFirst and checkLast are the waits before a store that failed is asked again.
	checkFirst = 100 * time.Millisecond
	checkLast  = 5 * time.Second
	// probeTimeout bounds a probe, checkTimeout a question.
	probeTimeout = 30 * time.Second
	checkTimeout = 5 * time.Second
)

// Config of a Monitor.
type Config struct {
	Bucket objstore.Bucket
	// Prepare is called before the probe, where it is set: it makes the bucket.
	Prepare func(ctx context.Context) error
	// Prefix gives the prefix of the probe's objects, new at each call.
	Prefix func() string
	Clock  clock.Clock
	Log    *slog.Logger
}

// Monitor is a Bucket that takes note of how its calls end.
type Monitor struct {
	cfg    Config
	failed chan struct{} // capacity 1: a call has failed
	mu     struct {
		sync.Mutex

		passed bool
		err    error // of the newest call that tells; nil = the store answered
	}
}

var _ objstore.Bucket = (*Monitor)(nil)

var errNotProbed = errors.New("the object store was not probed yet")

// NewMonitor wraps a bucket.
func NewMonitor(cfg Config) *Monitor { return &Monitor{cfg: cfg, failed: make(chan struct{}, 1)} }

// Ready is nil when the store has passed the probe and answered last. The error is fault.Unavailable.
func (m *Monitor) Ready() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.mu.err != nil:
		return fault.Errorf(fault.Unavailable, "use object store: %w", m.mu.err)
	case !m.mu.passed:
		return fault.Errorf(fault.Unavailable, "use object store: %w", errNotProbed)
	default:
		return nil
	}
}

// Run probes the store until it passes, then looks after it while it fails. It returns nil when ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	wait := backoff.New(m.cfg.Clock, nil, backoff.Policy{Initial: retryFirst, Max: retryLast})
	for ctx.Err() == nil {
		if err := m.probe(ctx); err == nil {
			break
		}
		_ = wait.Wait(ctx) // the loop looks at ctx
	}
	for {
		select {
		case <-m.failed:
			m.await(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// await asks a store that failed until it answers.
func (m *Monitor) await(ctx context.Context) {
	wait := backoff.New(m.cfg.Clock, nil, backoff.Policy{Initial: checkFirst, Max: checkLast})
	for wait.Wait(ctx) == nil && m.Ready() != nil {
		check, cancel := context.WithTimeout(ctx, checkTimeout)
		_, _ = m.Head(check, m.cfg.Prefix()) // note has the outcome
		cancel()
	}
}

func (m *Monitor) probe(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	var err error
	if m.cfg.Prepare != nil {
		err = m.cfg.Prepare(limited)
	}
	if err == nil {
		err = Probe(limited, m.cfg.Bucket, m.cfg.Prefix())
	}
	if ctx.Err() != nil {
		return err
	}
	m.mu.Lock()
	first := m.mu.err == nil
	m.mu.err, m.mu.passed = err, err == nil
	m.mu.Unlock()
	switch {
	case err == nil:
		m.cfg.Log.InfoContext(ctx, "object store probed")
	case first:
		m.cfg.Log.WarnContext(ctx, "object store failed the probe, trying again", "err", err)
	}
	return err
}

// note takes the outcome of a call. What the caller ended says nothing; that a key is missing or taken is an answer.
func (m *Monitor) note(ctx context.Context, err error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	bad := errors.Is(err, objstore.ErrUnavailable) || errors.Is(err, objstore.ErrDenied)
	m.mu.Lock()
	was := m.mu.err
	switch {
	case !m.mu.passed: // the probe decides
		m.mu.Unlock()
		return
	case bad:
		m.mu.err = err
	default:
		m.mu.err = nil
	}
	m.mu.Unlock()
	switch {
	case bad && was == nil:
		select {
		case m.failed <- struct{}{}:
		default:
		}
		m.cfg.Log.WarnContext(ctx, "object store does not answer, uploads wait", "err", err)
	case !bad && was != nil:
		m.cfg.Log.InfoContext(ctx, "object store answers again")
	}
}

// Put implements objstore.Bucket.
func (m *Monitor) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opts objstore.PutOptions) (objstore.Info, error) {
	info, err := m.cfg.Bucket.Put(ctx, key, body, size, opts)
	m.note(ctx, err)
	return info, err //nolint:wrapcheck // as the bucket says it.
}

// Get implements objstore.Bucket.
func (m *Monitor) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, objstore.Info, error) {
	body, info, err := m.cfg.Bucket.Get(ctx, key, off, n)
	m.note(ctx, err)
	if err != nil {
		return nil, info, err //nolint:wrapcheck // as the bucket says it.
	}
	return body, info, nil
}

// Head implements objstore.Bucket.
func (m *Monitor) Head(ctx context.Context, key string) (objstore.Info, error) {
	info, err := m.cfg.Bucket.Head(ctx, key)
	m.note(ctx, err)
	return info, err //nolint:wrapcheck // as the bucket says it.
}

// Delete implements objstore.Bucket.
func (m *Monitor) Delete(ctx context.Context, key string) error {
	err := m.cfg.Bucket.Delete(ctx, key)
	m.note(ctx, err)
	return err //nolint:wrapcheck // as the bucket says it.
}

// List implements objstore.Bucket.
func (m *Monitor) List(ctx context.Context, prefix, after string, limit int) ([]objstore.Info, error) {
	infos, err := m.cfg.Bucket.List(ctx, prefix, after, limit)
	m.note(ctx, err)
	return infos, err //nolint:wrapcheck // as the bucket says it.
}
