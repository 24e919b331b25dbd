package export

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
)

// Ledger has the tables: ledger.Ledger.
type Ledger interface {
	Refresh(ctx context.Context, id partition.ID) (*manifest.Table, error)
}

// Leader is told: leader.Pool.
type Leader interface {
	Exported(ctx context.Context, id partition.ID, e leader.Exported) error
}

// Limits of an Exporter.
type Limits struct {
	Linger   time.Duration // how long the first table waits for others
	Tables   int           // in a manifest
	Segments int           // in a manifest, unless one table alone has more
	Asks     int           // of leaders at a time
	Timeout  time.Duration // of a manifest
}

// Config of an Exporter.
type Config struct {
	Ledger  Ledger
	Leader  Leader
	Bucket  objstore.Bucket
	Store   topology.Store
	Cluster func() partition.UUID
	Name    string // of the tierer
	Clock   clock.Clock
	Limits  Limits
	Metrics *Metrics
	Log     *slog.Logger
}

// Exporter exports tables.
type Exporter struct {
	cfg   Config
	queue chan *request
	last  uint64 // highest sequence known to be taken, once known is true; Run's own
	known bool
	lag   *Lag
	mu    struct {
		sync.Mutex

		written []Written
	}
}

// Written is a manifest that this tierer has put into the bucket.
type Written struct {
	Sequence   uint64
	Partitions []partition.ID
}

// request is a table that waits.
type request struct {
	id    partition.ID
	table *manifest.Table
	done  chan error // capacity 1
}

// New makes an exporter.
func New(cfg Config) *Exporter {
	e := &Exporter{cfg: cfg, queue: make(chan *request), lag: newLag(cfg.Clock)}
	cfg.Metrics.watch(e.lag)
	return e
}

// Export has a partition's table exported and its leader told, and returns when that is done.
func (e *Exporter) Export(ctx context.Context, id partition.ID) error {
	r := &request{id: id, done: make(chan error, 1)}
	e.lag.want(id)
	if err := e.wait(ctx, r); err != nil {
		e.cfg.Metrics.failures.Inc()
		return fault.Wrap("export tier table of "+id.String(), err)
	}
	e.cfg.Metrics.seconds.Observe(e.lag.done(id).Seconds())
	return nil
}

// wait hands a request to Run and waits for its end.
func (e *Exporter) wait(ctx context.Context, r *request) error {
	select {
	case e.queue <- r:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	select {
	case err := <-r.done:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Run serves Export until ctx ends, and then returns nil.
func (e *Exporter) Run(ctx context.Context) error {
	for {
		select {
		case r := <-e.queue:
			e.export(ctx, e.gather(ctx, r))
		case <-ctx.Done():
			return nil
		}
	}
}

// gather waits a little for others.
func (e *Exporter) gather(ctx context.Context, first *request) []*request {
	all := []*request{first}
	timer := e.cfg.Clock.NewTimer(e.cfg.Limits.Linger)
	defer timer.Stop()
	for len(all) < e.cfg.Limits.Tables {
		select {
		case r := <-e.queue:
			all = append(all, r)
		case <-timer.C():
			return all
		case <-ctx.Done():
			return all
		}
	}
	return all
}

// export asks the leaders for their tables and exports these, in as many manifests as they need.
func (e *Exporter) export(ctx context.Context, requests []*request) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.Limits.Timeout)
	defer cancel()
	e.each(requests, func(r *request) {
		table, err := e.cfg.Ledger.Refresh(ctx, r.id)
		if err != nil {
			r.done <- err
			return
		}
		r.table = table
	})
	var group []*request
	segments := 0
	for _, r := range requests {
		if r.table == nil {
			continue
		}
		if len(group) > 0 && segments+len(r.table.Segments) > e.cfg.Limits.Segments {
			e.exportGroup(ctx, group)
			group, segments = nil, 0
		}
		group = append(group, r)
		segments += len(r.table.Segments)
	}
	if len(group) > 0 {
		e.exportGroup(ctx, group)
	}
}

// each runs a step for all requests, some at a time.
func (e *Exporter) each(requests []*request, step func(*request)) {
	var group errgroup.Group
	group.SetLimit(e.cfg.Limits.Asks)
	for _, r := range requests {
		group.Go(func() error {
			step(r)
			return nil
		})
	}
	_ = group.Wait() // the steps report to their requests
}

// exportGroup exports one manifest and tells the leaders of its tables.
func (e *Exporter) exportGroup(ctx context.Context, group []*request) {
	sequence, err := e.write(ctx, group)
	e.each(group, func(r *request) {
		if err != nil {
			r.done <- err
			return
		}
		r.done <- e.cfg.Leader.Exported(ctx, r.id, leader.Exported{
			Epoch: r.table.Epoch, Version: r.table.Version, TierEnd: r.table.TierEnd, Sequence: sequence,
		})
	})
	if err != nil {
		return
	}
	e.cfg.Metrics.manifests.Inc()
	e.cfg.Log.DebugContext(ctx, "manifest exported", "sequence", sequence, "tables", len(group))
}

// write puts the manifest into the bucket under a sequence that is free and not below a floor.
func (e *Exporter) write(ctx context.Context, group []*request) (uint64, error) {
	m := &manifest.Manifest{Cluster: e.cfg.Cluster(), Created: e.cfg.Clock.Now().UnixMicro(), Tierer: e.cfg.Name}
	ids := make([]partition.ID, 0, len(group))
	for _, r := range group {
		m.Tables = append(m.Tables, *r.table)
		ids = append(ids, r.id)
	}
	wait := backoff.New(e.cfg.Clock, nil, backoff.Policy{Initial: retryFirst, Max: retryLast})
	for {
		done, err := e.tryWrite(ctx, m, ids)
		if err == nil && done {
			e.remember(Written{Sequence: m.Sequence, Partitions: ids})
			return m.Sequence, nil
		}
		if err == nil {
			continue // another has taken the sequence, or the floor has passed it
		}
		if !errors.Is(err, objstore.ErrUnavailable) && !errors.Is(err, topology.ErrUnavailable) {
			return 0, err
		}
		e.cfg.Log.DebugContext(ctx, "manifest not written, trying again", "err", err)
		if waitErr := wait.Wait(ctx); waitErr != nil {
			return 0, &fault.Error{Kind: fault.Unavailable, Op: "write manifest", Err: err}
		}
	}
}

func (e *Exporter) remember(w Written) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.written = append(e.mu.written, w)
}

// TakeWritten gives the manifests that were written since it was called last, in order.
func (e *Exporter) TakeWritten() []Written {
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := e.mu.written
	e.mu.written = nil
	return taken
}
