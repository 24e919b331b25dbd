package coordinator

import (
	"context"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/telemetry"
)

// Coordinator is one coordinator process.
type Coordinator struct {
	cfg   Config
	deps  Deps
	ports node.Ports
	parts parts
	// joined: the cluster's identity is known and ours.
	joined atomic.Bool
}

// New binds the listeners. Nothing is served before Run, which closes them.
func New(ctx context.Context, cfg Config, deps Deps) (*Coordinator, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	c := &Coordinator{cfg: cfg, deps: deps, ports: cfg.ports()}
	if err := c.ports.Listen(ctx, deps.Network); err != nil {
		return nil, err //nolint:wrapcheck // names the field.
	}
	var err error
	if c.parts, err = c.wire(); err != nil {
		c.ports.Close()
		return nil, err
	}
	return c, nil
}

// Addrs tells where the coordinator listens.
func (c *Coordinator) Addrs() node.Addrs { return c.ports.Addrs() }

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
	defer c.ports.Close()
	defer c.parts.survey.Close()
	addrs := c.Addrs()
	c.deps.Log.Info("coordinator listens", "grpc", addrs.GRPC, "http", addrs.HTTP, "admin", addrs.Admin)
	parts := append(
		c.ports.Observed(c.deps.Log, c.deps.Metrics, &telemetry.Health{
			Ready: c.Ready, Service: "sq-coordinator", Instance: c.deps.Live(c.cfg.NodeID, c.cfg.Config, c.ports).ID, Version: c.deps.Version,
		}),
		lifecycle.Part{Name: "follower", Run: c.parts.follower.Run},
		lifecycle.Part{Name: "election", Run: c.campaign},
		lifecycle.Part{Name: "api", Run: func(ctx context.Context) error {
			return c.deps.ServeGRPC(ctx, c.parts.server, c.ports.GRPC)
		}},
	)
	return fault.Wrap("run coordinator", lifecycle.Run(ctx, c.deps.Log, parts...))
}

// campaign joins the cluster and stands for election.
func (c *Coordinator) campaign(ctx context.Context) error {
	cluster, err := c.deps.Join(ctx, c.cfg.Config)
	if err != nil || cluster.ID.IsZero() {
		return err //nolint:wrapcheck // says what was attempted.
	}
	c.joined.Store(true)
	return fault.Wrap("coordinate", c.parts.election.Run(ctx, c.lead))
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
		_ = backoff.Sleep(ctx, c.deps.Clock, namespaceRetry) // the loop looks at ctx
	}
	return nil
}
