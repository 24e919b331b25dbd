package gateway

import (
	"context"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/node"
)

// Gateway is one gateway process.
type Gateway struct {
	cfg    Config
	deps   Deps
	ports  node.Ports
	parts  parts
	joined atomic.Bool // the cluster's identity is known and ours
	ending atomic.Bool // asked to stop
}

// New binds the listeners. Nothing is served before Run, which closes them.
func New(ctx context.Context, cfg Config, deps Deps) (*Gateway, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, deps: deps, ports: cfg.ports()}
	if err := g.ports.Listen(ctx, deps.Network); err != nil {
		return nil, err //nolint:wrapcheck // names the field.
	}
	g.cfg.NodeID = g.live().ID
	var err error
	if g.parts, err = g.wire(ctx); err != nil {
		g.ports.Close()
		g.parts.close()
		return nil, err
	}
	return g, nil
}

// Addrs tells where the gateway listens.
func (g *Gateway) Addrs() node.Addrs { return g.ports.Addrs() }

// Ready is nil when the gateway has read its cluster's metadata and is not asked to stop.
func (g *Gateway) Ready() error {
	switch {
	case g.ending.Load():
		return fault.Errorf(fault.Unavailable, "the gateway is stopping")
	case !g.joined.Load():
		return fault.Errorf(fault.Unavailable, "etcd (%v) did not tell the cluster's identity yet", g.cfg.Etcd)
	case g.parts.follower.View().Revision == 0:
		return fault.Errorf(fault.Unavailable, "etcd (%v) did not tell the topology yet", g.cfg.Etcd)
	}
	return nil
}

// Run serves until ctx ends, and then stops in order (doc.go 4). It returns an error where the gateway cannot go on: another cluster's
// etcd, a later life of the same gateway (Conflict), a listener that broke.
func (g *Gateway) Run(ctx context.Context) error {
	defer g.parts.close()
	defer g.ports.Close()
	addrs := g.Addrs()
	g.deps.Log.Info("gateway listens", "capnp", addrs.Capnp, "grpc", addrs.GRPC, "http", addrs.HTTP, "admin", addrs.Admin)
	parts := append(
		g.ports.Observed(g.deps.Log, g.deps.Metrics, nil), // health is served beside REST
		lifecycle.Part{Name: "follower", Run: g.parts.follower.Run},
		lifecycle.Part{Name: "memory", Run: g.serveMemory},
		lifecycle.Part{Name: "clients", Run: g.serveClients},
		lifecycle.Part{Name: "registration", Run: g.register},
		lifecycle.Part{Name: "drain", Run: g.drain},
	)
	return fault.Wrap("run gateway", lifecycle.Run(ctx, g.deps.Log, parts...))
}

// drain is the first part to stop: from then on the gateway is not ready, and what waits for records ends.
func (g *Gateway) drain(ctx context.Context) error {
	<-ctx.Done()
	g.ending.Store(true)
	g.parts.rest.Drain()
	g.parts.data.Drain()
	return nil
}
