package data

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// ProducerIDs gives producer ids that nobody had before.
type ProducerIDs interface {
	Next(ctx context.Context) (uint64, error)
}

// Config is what a Server is made of. All fields but the budgets are needed.
type Config struct {
	Replicas    Replicas
	Peers       Peers
	ProducerIDs ProducerIDs
	Cluster     partition.UUID
	Node        partition.NodeID
	Software    string        // "sq-broker/0.1.0"
	Budget      frame.Budget  // for the batches that wait to be appended
	PeerBudget  frame.Budget  // the same, of other brokers: what clients send must not take the memory that replication needs
	Connections int           // at most; 0 = the default
	HelloWait   time.Duration // 0 = the default
	Clock       clock.Clock
	Log         *slog.Logger
	Metrics     prometheus.Registerer
	Tracers     trace.TracerProvider
}

// Server answers the broker's data port.
type Server struct {
	cfg     Config
	frames  *frame.Server
	metrics *metrics
	tracer  trace.Tracer
	waiting sync.WaitGroup  // calls on goroutines of their own
	life    context.Context //nolint:containedctx // of the calls that wait for something to happen: Shutdown ends it.
	end     context.CancelFunc
	panics  atomic.Uint64 // of these
}

// New makes a Server. It serves nothing before Serve.
func New(cfg Config) (*Server, error) {
	s := &Server{cfg: cfg, tracer: cfg.Tracers.Tracer("github.com/seedqueue/sq/services/broker")}
	s.life, s.end = context.WithCancel(context.Background())
	s.frames = frame.NewServer(frame.ServerConfig{
		Handler:        frame.HandlerFunc(s.handle),
		Accept:         s.accept,
		Log:            cfg.Log,
		Budget:         cfg.Budget,
		BudgetOf:       s.budgetOf,
		MaxConnections: cfg.Connections,
		HelloTimeout:   cfg.HelloWait,
	})
	metrics, err := newMetrics(cfg.Metrics, s.frames, &s.panics)
	if err != nil {
		return nil, err
	}
	s.metrics = metrics
	return s, nil
}

// Serve accepts connections until ctx ends, and then closes them at once, or until Shutdown. It closes the listener.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	defer s.waiting.Wait()
	defer s.end()
	return fault.Wrap("serve the data port", s.frames.Serve(ctx, listener))
}

// Shutdown says goAway, answers what is in flight, and returns when all connections have ended, at the latest when ctx ends. Who waits for
// records or for work is told at once to go elsewhere: the partitions have no leader before this broker has ended.
func (s *Server) Shutdown(ctx context.Context) error {
	s.end()
	err := s.frames.Shutdown(ctx)
	s.waiting.Wait()
	return fault.Wrap("drain the data port", err)
}

// polling gives the context of a call that waits for something to happen. Call done with its error when it has ended.
func (s *Server) polling(ctx context.Context) (_ context.Context, done func(error) error) {
	ctx, cancel := context.WithCancel(ctx)
	unhook := context.AfterFunc(s.life, cancel)
	return ctx, func(err error) error {
		unhook()
		cancel()
		if fault.Is(err, fault.Canceled) && s.life.Err() != nil {
			return fault.Errorf(fault.Unavailable, "the broker is stopping")
		}
		return err
	}
}

// accept judges a Hello.
func (s *Server) accept(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
	if hello.ClusterID != "" && hello.ClusterID != s.cfg.Cluster.String() {
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_wrongCluster,
			"this broker belongs to cluster %s, not to %s", s.cfg.Cluster, hello.ClusterID)
	}
	if hello.Role == wirecapnp.Role_client || hello.Role > wirecapnp.Role_coordinator {
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_denied,
			"this is broker %d, which serves gateways: connect to a gateway (port 6064)", s.cfg.Node)
	}
	if hello.Role == wirecapnp.Role_broker {
		if hello.ClusterID == "" {
			return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_wrongCluster, "a broker must say which cluster it belongs to")
		}
		if _, err := brokerOf(hello); err != nil {
			return frame.ServerInfo{}, faultwire.ToRemote(err)
		}
	}
	return frame.ServerInfo{ClusterID: s.cfg.Cluster.String(), NodeID: uint64(s.cfg.Node), Software: s.cfg.Software}, nil
}

// budgetOf keeps the memory of brokers and clients apart.
func (s *Server) budgetOf(hello frame.HelloInfo) frame.Budget {
	if hello.Role == wirecapnp.Role_broker {
		return s.cfg.PeerBudget
	}
	return s.cfg.Budget
}

// handle finds a request's row and carries it out.
func (s *Server) handle(ctx context.Context, req *frame.Request) {
	which := req.Message.Which()
	c := &call{server: s, req: req, metrics: s.metrics.call(which), start: s.cfg.Clock.Now()}
	var found *row
	if int(which) < callKinds {
		found = &table[which]
	}
	if found == nil || found.now == nil && found.later == nil {
		c.fail(fault.Errorf(fault.UnsupportedVersion, "%v is not served by a broker", which))
		return
	}
	if role := req.Session.Hello.Role; found.roles&roleBit(role) == 0 {
		c.fail(fault.Errorf(fault.Denied, "%v is not for the role %v", which, role))
		return
	}
	ctx = c.trace(ctx, found.span)
	if found.now != nil {
		found.now(s, ctx, c)
		return
	}
	s.waiting.Go(func() {
		defer c.recovered(ctx)
		if err := found.later(s, ctx, c); err != nil {
			c.fail(err)
		}
	})
}

// call is a request on its way to its answer.
type call struct {
	server  *Server
	req     *frame.Request
	metrics *callMetrics
	start   time.Time
	span    trace.Span // nil: not traced
}

// trace opens a span where the caller's is sampled.
func (c *call) trace(ctx context.Context, name string) context.Context {
	if !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx
	}
	ctx, c.span = c.server.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx
}

// reply answers; body may be nil.
func (c *call) reply(fill func(wirecapnp.Response) error, body frame.Body) {
	c.end(nil)
	_ = c.req.Reply(fill, body) // it fails where nobody listens any more
}

// answer answers with one struct, made and then filled. It gives nil: there is nothing more to answer.
func answer[T any](c *call, build func(wirecapnp.Response) (T, error), fill func(T)) error {
	c.reply(func(response wirecapnp.Response) error {
		out, err := build(response)
		if err == nil {
			fill(out)
		}
		return err
	}, nil)
	return nil
}

// fail answers with an error.
func (c *call) fail(err error) {
	c.end(err)
	_ = c.req.Fail(faultwire.ToRemote(err)) // it fails where nobody listens any more
}

func (c *call) end(err error) {
	c.metrics.observe(c.server.cfg.Clock.Now().Sub(c.start), err)
	if c.span != nil {
		if err != nil {
			c.span.RecordError(err)
		}
		c.span.End()
	}
}

// recovered makes a panic cost its connection only, as frame does for what runs on the connection's goroutine.
func (c *call) recovered(ctx context.Context) {
	cause := recover()
	if cause == nil {
		return
	}
	c.server.panics.Add(1)
	c.server.cfg.Log.ErrorContext(ctx, "handler panicked", "remote", c.req.Session.RemoteAddr().String(),
		"err", fmt.Sprint(cause), "stack", string(debug.Stack()))
	c.fail(fault.Errorf(fault.Internal, "request made the server fail")) // perhaps it was answered before
	c.req.Session.Close(frame.Errorf(wirecapnp.ErrorKind_internal, "request made the server fail"))
}

// replica finds the partition that a call is about.
func (s *Server) replica(id partition.ID) (Replica, error) {
	r, ok := s.cfg.Replicas.Replica(id)
	if !ok {
		return nil, fault.Errorf(fault.NotLeader, "broker %d holds no replica of partition %s", s.cfg.Node, id)
	}
	return r, nil
}
