package data

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// Anonymous is the principal of every client as long as nobody is authenticated.
const Anonymous = "anonymous"

// Config is what a Server is made of.
type Config struct {
	Router   route.Router
	Cluster  *upstream.Cluster
	Gate     *admission.Gate
	Creator  route.Creator // nil: topics are not created on first use
	Clock    clock.Clock
	Log      *slog.Logger
	Metrics  *prometheus.Registry
	Tracers  trace.TracerProvider
	Pool     *frame.Pool
	Limits   Limits
	Software string
}

// Server serves the data plane.
type Server struct {
	cfg     Config
	frame   *frame.Server
	metrics *metrics
	tracer  trace.Tracer
	life    context.Context //nolint:containedctx // of the long polls: Drain ends it.
	drain   context.CancelFunc
}

// New makes a Server and registers its metrics.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg, tracer: cfg.Tracers.Tracer("github.com/seedqueue/sq/services/gateway/data")}
	s.life, s.drain = context.WithCancel(context.Background())
	l := cfg.Limits
	s.frame = frame.NewServer(frame.ServerConfig{
		Handler: s, Accept: s.accept, Closed: s.closed, Log: cfg.Log,
		MaxMessageBytes: l.MessageBytes, MaxBodyBytes: l.BodyBytes, MaxInFlight: l.InFlight,
		MaxConnections: l.Connections, MaxUnauthenticated: l.Unauthenticated, HelloTimeout: l.HelloTimeout, StallTimeout: l.StallTimeout,
		WriteTimeout: l.WriteTimeout, DefaultTimeout: l.DefaultTimeout, MaxTimeout: l.MaxTimeout,
		Budget: cfg.Gate.Bodies(), Pool: cfg.Pool,
	})
	s.metrics = newMetrics(cfg.Metrics, s.frame.Stats)
	return s
}

// Serve serves a listener until ctx ends or Shutdown.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	return s.frame.Serve(ctx, listener) //nolint:wrapcheck // frame says what was attempted.
}

// Drain ends the long polls that are waiting, and those that come: their clients go on at another gateway.
func (s *Server) Drain() { s.drain() }

// Shutdown says goAway, answers what is in flight and closes the connections, at the latest when ctx ends.
func (s *Server) Shutdown(ctx context.Context) error {
	return s.frame.Shutdown(ctx) //nolint:wrapcheck // frame says what was attempted.
}

// accept judges a Hello.
func (s *Server) accept(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
	cluster := s.cfg.Router.Table().ClusterID()
	switch {
	case cluster.IsZero():
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_unavailable, "the gateway has not read the cluster's metadata yet")
	case hello.ClusterID != "" && hello.ClusterID != cluster.String():
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_wrongCluster, "this is cluster %s, not %.64q", cluster, hello.ClusterID)
	case hello.Role != wirecapnp.Role_client:
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_denied, "a gateway serves clients only; brokers and tierers have ports of their own")
	}
	return frame.ServerInfo{ClusterID: cluster.String(), Software: s.cfg.Software}, nil
}

// closed joins what was done for a connection.
func (s *Server) closed(session *frame.Session) {
	if c, ok := session.Value().(*client); ok {
		c.close()
	}
}

// Handle implements frame.Handler.
func (s *Server) Handle(ctx context.Context, req *frame.Request) {
	c, ok := req.Session.Value().(*client)
	if !ok { // the first request of the connection; its read loop makes one after the other
		c = &client{server: s, caller: s.cfg.Cluster.Caller(upstream.Client{
			ID: req.Session.Hello.ClientID, Principal: Anonymous, Budget: s.cfg.Gate.Share(),
		})}
		req.Session.SetValue(c)
	}
	switch req.Message.Which() {
	case wirecapnp.Request_Which_publish:
		c.publish(ctx, req)
	case wirecapnp.Request_Which_fetch:
		c.spawn(ctx, req, callFetch, c.fetch)
	case wirecapnp.Request_Which_metadata:
		c.spawn(ctx, req, callMetadata, c.metadata)
	case wirecapnp.Request_Which_listOffsets:
		c.spawn(ctx, req, callListOffsets, c.listOffsets)
	case wirecapnp.Request_Which_initProducer:
		c.spawn(ctx, req, callInitProducer, c.initProducer)
	default:
		s.metrics.requests.WithLabelValues(callOther, fault.Denied.String()).Inc()
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_denied, "a gateway does not serve %s to clients", req.Message.Which()))
	}
}

// remote gives an error as it is told to a client.
func remote(err error) *frame.RemoteError {
	out := &frame.RemoteError{Kind: wirecapnp.ErrorKind(fault.KindOf(err)), Text: err.Error()}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		out.RetryAfter, out.Offset, out.Epoch = f.RetryAfter, f.Offset, f.Epoch
	}
	return out
}

// unreadable is the error of a message that Cap'n Proto cannot follow.
func unreadable(err error) error {
	return fault.Errorf(fault.Invalid, "read request: %w", err)
}

func panicked(cause any) error { return fmt.Errorf("panic: %v", cause) }
