package gateway

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
)

// serveClients serves all three ports, and stops them side by side.
func (g *Gateway) serveClients(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, serve := range []func(context.Context) error{g.serveData, g.serveGRPC, g.serveHTTP} {
		group.Go(func() error { return serve(ctx) })
	}
	return group.Wait() //nolint:wrapcheck // each says what was attempted.
}

// serveData serves the data plane.
func (g *Gateway) serveData(ctx context.Context) error {
	return fault.Wrap("serve data plane", g.deps.ServeFrames(ctx, g.parts.data, g.ports.Capnp))
}

// serveGRPC serves clients over gRPC.
func (g *Gateway) serveGRPC(ctx context.Context) error {
	return g.deps.ServeGRPC(ctx, g.parts.network, admission.Limit(g.ports.GRPC, defaultLimits().control.Connections)) //nolint:wrapcheck // says what was attempted.
}

// serveMemory serves rest.
func (g *Gateway) serveMemory(ctx context.Context) error {
	return g.deps.ServeGRPC(ctx, g.parts.memory, g.parts.inside) //nolint:wrapcheck // says what was attempted.
}

// serveHTTP serves REST and health.
func (g *Gateway) serveHTTP(ctx context.Context) error {
	return telemetry.ServeHTTP(ctx, g.deps.Log, admission.Limit(g.ports.HTTP, httpConnections), g.parts.rest) //nolint:wrapcheck // says what was attempted.
}

// register learns which cluster this is and keeps the gateway's key. It waits for etcd.
func (g *Gateway) register(ctx context.Context) error {
	if err := g.join(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return g.deps.Stay(ctx, g.cfg.Config, topology.GatewayLiveKey(g.cfg.NodeID), g.live(), func(bool) {}) //nolint:wrapcheck // says what was attempted.
}

// join waits until the cluster has an identity, which brokers and coordinators give it, and compares it with the wanted one.
func (g *Gateway) join(ctx context.Context) error {
	want, err := g.cfg.Cluster()
	if err != nil {
		return err
	}
	view, err := g.parts.follower.WaitFor(ctx, func(v *topology.View) bool { return !v.Cluster.Value.ID.IsZero() })
	if err != nil {
		return nil //nolint:nilerr // ctx has ended.
	}
	got := view.Cluster.Value.ID
	if want != (partition.UUID{}) && got != want {
		return fault.Errorf(fault.WrongCluster, "cluster-id: etcd (%v) is of cluster %s, wanted is %s", g.cfg.Etcd, got, want)
	}
	g.joined.Store(true)
	g.deps.Log.Info("joined cluster", "cluster", got.String(), "node", g.cfg.NodeID)
	return nil
}

// live is what the gateway writes under its key.
func (g *Gateway) live() topology.Live { return g.deps.Live(g.cfg.NodeID, g.cfg.Config, g.ports) }
