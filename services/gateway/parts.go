package gateway

import (
	"context"
	"net"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
	"github.com/seedqueue/sq/services/gateway/internal/control"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
	"github.com/seedqueue/sq/services/gateway/internal/data"
	"github.com/seedqueue/sq/services/gateway/internal/records"
	"github.com/seedqueue/sq/services/gateway/internal/rest"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// parts is what a gateway is made of.
type parts struct {
	follower    *topology.Follower
	router      route.Router
	coordinator *control.Coordinator
	api         *upstream.Caller // of publishes and control calls over gRPC and REST
	records     *records.Service
	data        *data.Server
	network     *grpc.Server // gRPC for clients
	memory      *grpc.Server // the same for rest
	inside      *bufconn.Listener
	conn        *grpc.ClientConn // to memory
	rest        *rest.Handler
}

func (g *Gateway) wire(ctx context.Context) (parts, error) {
	d, l := g.deps, defaultLimits()
	software := "sq-gateway/" + d.Version
	gate := admission.New(int(g.cfg.BodyMemory), int(g.cfg.BodyMemory)/shareOf, g.cfg.Calls, d.Metrics)
	pool := frame.NewPool()
	p := parts{follower: topology.NewFollower(d.Store, d.Log, d.Clock)}
	p.router = route.NewRouter(p.follower, d.Clock)
	cluster := upstream.New(upstream.Config{
		Router: p.router, Network: d.Network, Clock: d.Clock, Metrics: d.Metrics, Pool: pool, Limits: l.upstream, Software: software, Zone: g.cfg.Zone,
	})
	newID := func() string { return d.NewUUID().String() }
	p.coordinator = control.NewCoordinator(p.router, d.Network, d.Clock, d.Tracers, newID, l.control)
	p.api = cluster.Caller(upstream.Client{ID: g.cfg.NodeID + "/api", Principal: data.Anonymous, Budget: gate.Bodies()})
	var creator route.Creator
	if g.cfg.AutoCreateTopics {
		creator = p.coordinator
	}
	p.records = records.New(records.Config{
		Router: p.router, Creator: creator, Clock: d.Clock, Limits: l.records, Publish: p.api,
		Reader: func() *upstream.Caller {
			return cluster.Caller(upstream.Client{ID: g.cfg.NodeID + "/api-reader", Principal: data.Anonymous, Budget: gate.Share()})
		},
	})
	p.data = data.New(data.Config{
		Router: p.router, Cluster: cluster, Gate: gate, Creator: creator, Clock: d.Clock, Log: d.Log, Metrics: d.Metrics, Tracers: d.Tracers, Pool: pool,
		Limits: l.data, Software: software,
	})
	p.network, p.memory = control.NewServers(control.ServerConfig{
		Services: control.Services{
			Topics:     control.NewTopics(p.coordinator, p.router, p.api, l.control),
			Namespaces: control.NewNamespaces(p.coordinator),
			Cluster:    control.NewCluster(p.coordinator),
			Data:       p.records,
		},
		Gate: gate, Clock: d.Clock, Log: d.Log, Metrics: d.Metrics, Tracers: d.Tracers, Limits: l.control,
	})
	p.inside = bufconn.Listen(memoryBuffer)
	return g.wireREST(ctx, p, gate, l)
}

// wireREST makes the HTTP side over the gRPC side.
func (g *Gateway) wireREST(ctx context.Context, p parts, gate *admission.Gate, l limits) (parts, error) {
	var err error
	p.conn, err = grpc.NewClient("passthrough:///memory",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return p.inside.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(memoryMessageBytes), grpc.MaxCallSendMsgSize(memoryMessageBytes)),
		grpc.WithStatsHandler(otelgrpc.NewClientHandler(
			otelgrpc.WithTracerProvider(g.deps.Tracers), otelgrpc.WithPropagators(propagation.TraceContext{}),
		)),
		grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return p, fault.Wrap("connect REST to gRPC", err)
	}
	p.rest, err = rest.New(ctx, rest.Config{
		Conn: p.conn, Gate: gate, Clock: g.deps.Clock, Log: g.deps.Log, Tracers: g.deps.Tracers, Version: g.deps.Version, Limits: l.rest,
		Sealer: func() cursor.Sealer { return cursor.NewSealer(p.router.Table().ClusterID()) },
		Health: telemetry.HealthHandler(telemetry.Health{Ready: g.Ready, Service: "sq-gateway", Instance: g.cfg.NodeID, Version: g.deps.Version}),
	})
	return p, fault.Wrap("make REST routes", err)
}

// close ends what New has made, when nothing is served any more.
func (p *parts) close() {
	if p.conn != nil {
		_ = p.conn.Close() // calls have ended
	}
	p.network.Stop()
	p.memory.Stop()
	p.records.Close()
	p.api.Close()
	_ = p.coordinator.Close() // calls have ended
}
