package gateway

import (
	"context"
	"errors"
	"net"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

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

// serveData serves the data plane until ctx ends, and then lets what is in flight be answered.
func (g *Gateway) serveData(ctx context.Context) error {
	served := make(chan error, 1)
	hard, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	go func() { served <- g.parts.data.Serve(hard, g.capnp) }()
	select {
	case err := <-served:
		return fault.Wrap("serve data plane", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(hard, drainTimeout)
	defer cancel()
	if err := g.parts.data.Shutdown(drain); err != nil {
		g.deps.Log.Warn("what was in flight is cut off", "timeout", drainTimeout, "err", err)
	}
	return fault.Wrap("serve data plane", <-served)
}

// serveGRPC serves clients over gRPC.
func (g *Gateway) serveGRPC(ctx context.Context) error {
	return g.serveRPC(ctx, g.parts.network, admission.Limit(g.grpc, defaultLimits().control.Connections))
}

// serveMemory serves rest.
func (g *Gateway) serveMemory(ctx context.Context) error {
	return g.serveRPC(ctx, g.parts.memory, g.parts.inside)
}

// serveRPC serves until ctx ends, then lets calls in work end.
func (g *Gateway) serveRPC(ctx context.Context, server *grpc.Server, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fault.Wrap("serve gRPC", err)
	case <-ctx.Done():
	}
	drained := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(drained)
	}()
	timer := g.deps.Clock.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C():
		server.Stop()
		<-drained
	}
	return fault.Wrap("serve gRPC", <-served)
}

// serveHTTP serves REST and health.
func (g *Gateway) serveHTTP(ctx context.Context) error {
	return telemetry.ServeHTTP(ctx, g.deps.Log, admission.Limit(g.http, httpConnections), g.parts.rest) //nolint:wrapcheck // says what was attempted.
}

// register learns which cluster this is and keeps the gateway's key. It waits for etcd.
func (g *Gateway) register(ctx context.Context) error {
	if err := g.join(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	var registration *topology.Registration
	err := g.untilEtcdAnswers(ctx, func() (err error) {
		registration, err = topology.Register(ctx, g.deps.Store, topology.RegisterParams{
			Key: topology.GatewayLiveKey(g.cfg.NodeID), Live: g.live(), TTL: g.cfg.LeaseTTL,
		})
		return err
	})
	if err != nil || ctx.Err() != nil {
		return err
	}
	err = registration.Keep(ctx, g.deps.Clock, g.deps.Log)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if closeErr := registration.Close(end); closeErr != nil {
		g.deps.Log.Warn("the registration was not taken back, it runs out by itself", "err", closeErr)
	}
	return fault.Wrap("keep registration", err)
}

// join waits until the cluster has an identity, which brokers and coordinators give it, and compares it with the wanted one.
func (g *Gateway) join(ctx context.Context) error {
	want, err := g.cfg.cluster()
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

// untilEtcdAnswers repeats a call until etcd has answered it, or ctx has ended.
func (g *Gateway) untilEtcdAnswers(ctx context.Context, call func() error) error {
	silent := false
	for {
		err := call()
		if ctx.Err() != nil || !errors.Is(err, topology.ErrUnavailable) {
			return err
		}
		if !silent {
			g.deps.Log.Warn("etcd does not answer, waiting for it", "etcd", g.cfg.Etcd, "err", err)
			silent = true
		}
		timer := g.deps.Clock.NewTimer(etcdRetry)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// live is what the gateway writes under its key.
func (g *Gateway) live() topology.Live {
	advertised := func(given string, listener net.Listener) string {
		if given != "" {
			return given
		}
		return reachable(listener.Addr().String(), g.deps.Hostname)
	}
	return topology.Live{
		ID: g.cfg.NodeID, Zone: g.cfg.Zone, Software: g.deps.Version,
		Capnp: advertised(g.cfg.AdvertiseCapnp, g.capnp), GRPC: advertised(g.cfg.AdvertiseGRPC, g.grpc), HTTP: advertised(g.cfg.AdvertiseHTTP, g.http),
	}
}

// reachable puts the host's name in place of a wildcard.
func reachable(address, hostname string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || hostname == "" || ip == nil || !ip.IsUnspecified() {
		return address
	}
	return net.JoinHostPort(hostname, port)
}
