package coordinator

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/coordinator/internal/api"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/election"
	"github.com/seedqueue/sq/services/coordinator/internal/reconcile"
)

// parts is what a coordinator is made of.
type parts struct {
	follower  *topology.Follower
	election  *election.Election
	catalog   *catalog.Catalog
	reconcile *reconcile.Loop
	server    *grpc.Server
	newUUID   func() partition.UUID
}

func (c *Coordinator) wire() (parts, error) {
	d := c.deps
	active := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sq_coordinator_active_state", Help: "1 while this coordinator is the active one, else 0.",
	})
	if err := d.Metrics.Register(active); err != nil {
		return parts{}, fmt.Errorf("register metric: %w", err)
	}
	metrics, err := reconcile.NewMetrics(d.Metrics)
	if err != nil {
		return parts{}, fmt.Errorf("register metric: %w", err)
	}
	p := parts{follower: topology.NewFollower(d.Store, d.Log, d.Clock), newUUID: uuids(d.Rand)}
	p.election = election.New(election.Config{
		Store: d.Store, Clock: d.Clock, Log: d.Log, TTL: c.cfg.LeaseTTL, Live: c.live(),
		OnChange: func(is bool) {
			if is {
				active.Set(1)
			} else {
				active.Set(0)
			}
		},
	})
	p.catalog = catalog.New(catalog.Config{
		Store: d.Store, Views: p.follower, Office: p.election, Clock: d.Clock, NewUUID: p.newUUID, Log: d.Log, ReplicasMax: replicasMax,
	})
	p.reconcile = reconcile.New(reconcile.Config{
		Store: d.Store, Views: p.follower, Office: p.election, Clock: d.Clock, Log: d.Log, Metrics: metrics,
		Planner: &reconcile.Planner{Creating: p.catalog.Creating, Grace: c.cfg.DeletedGrace},
	})
	p.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(messageBytesMax),
		grpc.MaxConcurrentStreams(callsPerConnection),
		grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(d.Tracers), otelgrpc.WithPropagators(propagation.TraceContext{}))),
		grpc.ChainUnaryInterceptor(api.Translate, limitTime),
	)
	coordinatorv1.RegisterCoordinatorServiceServer(p.server, api.New(p.catalog))
	return p, nil
}

// live is what the election writes into etcd.
func (c *Coordinator) live() topology.Live {
	live := topology.Live{
		ID: c.cfg.NodeID, Zone: c.cfg.Zone, Software: c.deps.Version, GRPC: c.cfg.AdvertiseGRPC,
		HTTP: reachable(c.http.Addr().String(), c.deps.Hostname),
	}
	if live.GRPC == "" {
		live.GRPC = reachable(c.grpc.Addr().String(), c.deps.Hostname)
	}
	if live.ID == "" {
		live.ID = live.GRPC
	}
	return live
}

// reachable puts the host's name in place of a wildcard.
func reachable(address, hostname string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err != nil || hostname == "" || ip == nil || !ip.IsUnspecified() {
		return address
	}
	return net.JoinHostPort(hostname, port)
}

// uuids makes random ones. A source of randomness that fails is beyond help, and random UUIDs must not be guessed.
func uuids(random io.Reader) func() partition.UUID {
	return func() partition.UUID {
		id, err := uuid.NewRandomFromReader(random)
		if err != nil {
			panic(fmt.Sprintf("coordinator: read randomness: %v", err))
		}
		return partition.UUID(id)
	}
}

// limitTime gives a call that brings no deadline one.
func limitTime(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	return next(ctx, request)
}

// serveGRPC serves until ctx ends, then lets calls in work end.
func (c *Coordinator) serveGRPC(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- c.parts.server.Serve(c.grpc) }()
	select {
	case err := <-served:
		return fault.Wrap("serve gRPC", err)
	case <-ctx.Done():
	}
	drained := make(chan struct{})
	go func() {
		c.parts.server.GracefulStop()
		close(drained)
	}()
	timer := c.deps.Clock.NewTimer(drainTimeout)
	defer timer.Stop()
	select {
	case <-drained:
	case <-timer.C():
		c.parts.server.Stop()
		<-drained
	}
	return fault.Wrap("serve gRPC", <-served)
}

func (c *Coordinator) health() http.Handler {
	return telemetry.HealthHandler(telemetry.Health{
		Ready: c.Ready, Service: "sq-coordinator", Instance: c.live().ID, Version: c.deps.Version,
	})
}

func (c *Coordinator) sleep(ctx context.Context, d time.Duration) {
	timer := c.deps.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
