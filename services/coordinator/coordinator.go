package coordinator

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
)

// Coordinator is one coordinator process.
type Coordinator struct {
	cfg   Config
	deps  Deps
	grpc  net.Listener
	http  net.Listener
	admin net.Listener // nil = none
	parts parts
	// joined: the cluster's identity is known and ours.
	joined atomic.Bool
}

// Addrs are the addresses a coordinator listens on, as host:port; Admin is "" where there is none.
type Addrs struct {
	GRPC, HTTP, Admin string
}

// New binds the listeners. Nothing is served before Run, which closes them.
func New(ctx context.Context, cfg Config, deps Deps) (_ *Coordinator, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{cfg: cfg, deps: deps}
	defer func() {
		if err != nil {
			c.closeListeners()
		}
	}()
	if c.grpc, err = c.listen(ctx, "grpc-host", cfg.GRPCHost); err != nil {
		return nil, err
	}
	if c.http, err = c.listen(ctx, "http-host", cfg.HTTPHost); err != nil {
		return nil, err
	}
	if cfg.AdminHost != "" {
		if c.admin, err = c.listen(ctx, "admin-host", cfg.AdminHost); err != nil {
			return nil, err
		}
	}
	if c.parts, err = c.wire(); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Coordinator) listen(ctx context.Context, field, address string) (net.Listener, error) {
	lis, err := c.deps.Network.Listen(ctx, address)
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "%s: listen on %s: %w", field, address, err)
	}
	return lis, nil
}

func (c *Coordinator) closeListeners() {
	for _, lis := range []net.Listener{c.grpc, c.http, c.admin} {
		if lis != nil {
			_ = lis.Close() // that it was closed before is all that can be wrong
		}
	}
}

// Addrs tells where the coordinator listens.
func (c *Coordinator) Addrs() Addrs {
	addrs := Addrs{GRPC: c.grpc.Addr().String(), HTTP: c.http.Addr().String()}
	if c.admin != nil {
		addrs.Admin = c.admin.Addr().String()
	}
	return addrs
}

// Ready is nil when the coordinator has joined its cluster and follows it, as the active one or standing by.
func (c *Coordinator) Ready() error {
	if !c.joined.Load() {
		return fault.Errorf(fault.Unavailable, "etcd did not tell the cluster's identity yet")
	}
	if c.parts.follower.View().Revision == 0 {
		return fault.Errorf(fault.Unavailable, "etcd did not tell the topology yet")
	}
	return nil
}

// Active tells whether this coordinator is the active one.
func (c *Coordinator) Active() bool {
	_, err := c.parts.election.Guard()
	return err == nil
}

// Run serves until ctx ends and then resigns and drains. It returns an error where the coordinator cannot go on: another cluster's etcd,
// or a listener that broke.
func (c *Coordinator) Run(ctx context.Context) error {
	defer c.closeListeners()
	addrs := c.Addrs()
	c.deps.Log.Info("coordinator listens", "grpc", addrs.GRPC, "http", addrs.HTTP, "admin", addrs.Admin)
	parts := []lifecycle.Part{
		{Name: "health", Run: func(ctx context.Context) error { return telemetry.ServeHTTP(ctx, c.deps.Log, c.http, c.health()) }},
		{Name: "follower", Run: c.parts.follower.Run},
		{Name: "election", Run: c.campaign},
		{Name: "api", Run: c.serveGRPC},
	}
	if c.admin != nil {
		parts = append([]lifecycle.Part{
			{Name: "admin", Run: func(ctx context.Context) error {
				return telemetry.ServeHTTP(ctx, c.deps.Log, c.admin, telemetry.AdminHandler(c.deps.Metrics))
			}},
		}, parts...)
	}
	return fault.Wrap("run coordinator", lifecycle.Run(ctx, c.deps.Log, parts...))
}

// campaign joins the cluster and stands for election.
func (c *Coordinator) campaign(ctx context.Context) error {
	if err := c.join(ctx); err != nil {
		return err
	}
	if err := c.parts.election.Run(ctx, c.lead); err != nil {
		return fmt.Errorf("coordinate: %w", err)
	}
	return nil
}

// join finds or makes the cluster's identity, as soon as etcd answers.
func (c *Coordinator) join(ctx context.Context) error {
	want, err := c.cfg.cluster()
	if err != nil {
		return err
	}
	silent := false
	for {
		cluster, err := topology.Bootstrap(ctx, c.deps.Store, want, c.deps.Clock, c.parts.newUUID)
		if err == nil {
			c.deps.Log.Info("joined cluster", "cluster", cluster.Value.ID.String())
			c.joined.Store(true)
			return nil
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop.
		}
		if !errors.Is(err, topology.ErrUnavailable) {
			return err //nolint:wrapcheck // says what was attempted.
		}
		if !silent {
			c.deps.Log.Warn("etcd does not answer, waiting for it", "etcd", c.cfg.Etcd, "err", err)
			silent = true
		}
		c.sleep(ctx, bootstrapRetry)
	}
}

// lead is the work of the active coordinator.
func (c *Coordinator) lead(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.parts.catalog.EnsureDefault(ctx)
		if err == nil {
			return c.parts.reconcile.Run(ctx) //nolint:wrapcheck // it has no error of its own.
		}
		if ctx.Err() == nil {
			c.deps.Log.Warn("make the default namespace", "err", err)
		}
		c.sleep(ctx, bootstrapRetry)
	}
	return nil
}
