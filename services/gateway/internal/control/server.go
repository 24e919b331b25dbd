package control

import (
	"context"
	"log/slog"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/tap"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
)

// Services are what a server serves.
type Services struct {
	Topics     controlv1.TopicServiceServer
	Namespaces controlv1.NamespaceServiceServer
	Cluster    controlv1.ClusterServiceServer
	Data       datav1.DataServiceServer
}

// ServerConfig is what NewServers needs.
type ServerConfig struct {
	Services Services
	Gate     *admission.Gate
	Clock    clock.Clock
	Log      *slog.Logger
	Metrics  *prometheus.Registry
	Tracers  trace.TracerProvider
	Limits   Limits
}

// NewServers makes two servers of the same services and interceptors: one for the network, whose calls take a slot of the gate, and one
// for the connection in memory, whose HTTP requests have taken theirs.
func NewServers(cfg ServerConfig) (network, memory *grpc.Server) {
	edge := &edge{cfg: cfg, metrics: newMetrics(cfg.Metrics)}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(cfg.Limits.MessageBytes),
		grpc.MaxHeaderListSize(cfg.Limits.HeaderBytes),
		grpc.MaxConcurrentStreams(cfg.Limits.Streams),
		grpc.ConnectionTimeout(cfg.Limits.Handshake),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: time.Minute, Timeout: 20 * time.Second, MaxConnectionIdle: 10 * time.Minute}),
		grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(cfg.Tracers), otelgrpc.WithPropagators(propagation.TraceContext{}))),
		grpc.ChainUnaryInterceptor(edge.serve),
	}
	network = grpc.NewServer(append(options, grpc.InTapHandle(edge.admit))...)
	memory = grpc.NewServer(append(options, grpc.MaxConcurrentStreams(0), grpc.KeepaliveParams(keepalive.ServerParameters{}))...)
	for _, server := range []*grpc.Server{network, memory} {
		controlv1.RegisterTopicServiceServer(server, cfg.Services.Topics)
		controlv1.RegisterNamespaceServiceServer(server, cfg.Services.Namespaces)
		controlv1.RegisterClusterServiceServer(server, cfg.Services.Cluster)
		datav1.RegisterDataServiceServer(server, cfg.Services.Data)
	}
	reflection.Register(network)
	return network, memory
}

// edge is what every call passes.
type edge struct {
	cfg     ServerConfig
	metrics *metrics
}

// admit takes a slot before a call's message is read. The slot goes with the call's context, which ends in every case.
func (e *edge) admit(ctx context.Context, _ *tap.Info) (context.Context, error) {
	leave, err := e.cfg.Gate.Enter()
	if err != nil {
		return ctx, faultwire.ToStatus(err).Err()
	}
	context.AfterFunc(ctx, leave)
	return ctx, nil
}

// serve bounds a call in time, counts it, and turns its error or panic into a status.
func (e *edge) serve(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
	started := e.cfg.Clock.Now()
	ctx, cancel := context.WithTimeout(ctx, e.timeout(ctx, req))
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			e.cfg.Log.Error("call panicked", "method", info.FullMethod, "err", cause, "stack", string(debug.Stack()))
			res, err = nil, faultwire.ToStatus(fault.Errorf(fault.Internal, "the gateway failed to serve %s", info.FullMethod)).Err()
		}
		e.metrics.seconds.WithLabelValues(info.FullMethod).Observe(e.cfg.Clock.Now().Sub(started).Seconds())
		e.metrics.calls.WithLabelValues(info.FullMethod, resultOf(err)).Inc()
	}()
	res, err = next(ctx, req)
	if err == nil {
		return res, nil
	}
	status := faultwire.ToStatus(err)
	e.note(ctx, info.FullMethod, faultwire.FromStatus(status))
	return nil, status.Err()
}

func resultOf(err error) string {
	if err == nil {
		return "ok"
	}
	return fault.KindOf(faultwire.FromGRPC(err)).String()
}

// timeout gives a call without a deadline one, and a long one a shorter. A Fetch may wait besides.
func (e *edge) timeout(ctx context.Context, req any) time.Duration {
	if _, has := ctx.Deadline(); has {
		return e.cfg.Limits.TimeoutMax
	}
	timeout := e.cfg.Limits.Timeout
	if fetch, ok := req.(*datav1.FetchRequest); ok && fetch.GetWaitTime().IsValid() {
		timeout += min(max(fetch.GetWaitTime().AsDuration(), 0), e.cfg.Limits.TimeoutMax)
	}
	return min(timeout, e.cfg.Limits.TimeoutMax)
}

// note logs a failure: SQ's own as such, what a caller did wrong only for who looks closely.
func (e *edge) note(ctx context.Context, method string, err *fault.Error) {
	level := slog.LevelDebug
	switch err.Kind {
	case fault.Internal, fault.Corrupt, fault.Diverged, fault.DiskPoisoned:
		level = slog.LevelError
	case fault.OutcomeUnknown, fault.Unavailable, fault.DiskFull, fault.WrongCluster:
		level = slog.LevelWarn
	}
	e.cfg.Log.Log(ctx, level, "call failed", "method", method, "kind", err.Kind.String(), "err", err)
}
