package gateway

import (
	"context"
	"net"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/telemetry"
)

// Gateway is one gateway process.
type Gateway struct {
	cfg    Config
	deps   Deps
	capnp  net.Listener
	grpc   net.Listener
	http   net.Listener
	admin  net.Listener // nil = none
	parts  parts
	joined atomic.Bool // the cluster's identity is known and ours
	ending atomic.Bool // asked to stop
}

// Addrs are the addresses a gateway listens on, as host:port; Admin is "" where there is none.
type Addrs struct {
	Capnp, GRPC, HTTP, Admin string
}

// New binds the listeners. Nothing is served before Run, which closes them.
func New(ctx context.Context, cfg Config, deps Deps) (_ *Gateway, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	g := &Gateway{cfg: cfg, deps: deps}
	defer func() {
		if err != nil {
			g.closeListeners()
		}
	}()
	for _, l := range []struct {
		field, addr string
		to          *net.Listener
		optional    bool
	}{
		{"capnp-host", cfg.CapnpHost, &g.capnp, false},
		{"grpc-host", cfg.GRPCHost, &g.grpc, false},
		{"http-host", cfg.HTTPHost, &g.http, false},
		{"admin-host", cfg.AdminHost, &g.admin, true},
	} {
		if l.addr == "" && l.optional {
			continue
		}
		if *l.to, err = deps.Network.Listen(ctx, l.addr); err != nil {
			return nil, fault.Errorf(fault.Unavailable, "%s: listen on %s: %w", l.field, l.addr, err)
		}
	}
	if g.cfg.NodeID == "" {
		g.cfg.NodeID = g.live().Capnp
	}
	g.parts, err = g.wire(ctx)
	if err != nil {
		g.parts.close()
		return nil, err
	}
	return g, nil
}

func (g *Gateway) closeListeners() {
	for _, listener := range []net.Listener{g.capnp, g.grpc, g.http, g.admin} {
		if listener != nil {
			_ = listener.Close() // that it was closed before is all that can be wrong
		}
	}
}

// Addrs tells where the gateway listens.
func (g *Gateway) Addrs() Addrs {
	addrs := Addrs{Capnp: g.capnp.Addr().String(), GRPC: g.grpc.Addr().String(), HTTP: g.http.Addr().String()}
	if g.admin != nil {
		addrs.Admin = g.admin.Addr().String()
	}
	return addrs
}

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
	defer g.closeListeners()
	addrs := g.Addrs()
	g.deps.Log.Info("gateway listens", "capnp", addrs.Capnp, "grpc", addrs.GRPC, "http", addrs.HTTP, "admin", addrs.Admin)
	parts := []lifecycle.Part{
		{Name: "follower", Run: g.parts.follower.Run},
		{Name: "memory", Run: g.serveMemory},
		{Name: "clients", Run: g.serveClients},
		{Name: "registration", Run: g.register},
		{Name: "drain", Run: g.drain},
	}
	if g.admin != nil {
		parts = append([]lifecycle.Part{{Name: "admin", Run: func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, g.deps.Log, g.admin, telemetry.AdminHandler(g.deps.Metrics))
		}}}, parts...)
	}
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
