package control

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/gateway/internal/route"
)

const (
	// attemptTimeout bounds one attempt at a coordinator: a dead one must not take all of the caller's time.
	attemptTimeout = 10 * time.Second
	retryFirst     = 20 * time.Millisecond
	retryLast      = 500 * time.Millisecond
	connectBackoff = 250 * time.Millisecond
)

// Coordinator calls the active coordinator.
type Coordinator struct {
	router  route.Router
	network transport.Network
	clock   clock.Clock
	tracers trace.TracerProvider
	newID   func() string
	limits  Limits

	mu struct {
		sync.Mutex
		conns map[string]*grpc.ClientConn // by address
	}
}

// NewCoordinator makes one. newID gives ids for creations that bring none.
func NewCoordinator(router route.Router, network transport.Network, clk clock.Clock, tracers trace.TracerProvider, newID func() string, limits Limits) *Coordinator {
	c := &Coordinator{router: router, network: network, clock: clk, tracers: tracers, newID: newID, limits: limits}
	c.mu.conns = map[string]*grpc.ClientConn{}
	return c
}

// Close ends the connections.
func (c *Coordinator) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var err error
	for _, conn := range c.mu.conns {
		err = errors.Join(err, conn.Close())
	}
	clear(c.mu.conns)
	return err
}

// client gives the active coordinator's. Connections to earlier ones are closed.
func (c *Coordinator) client() (coordinatorv1.CoordinatorServiceClient, error) {
	addr, ok := c.router.Table().Coordinator()
	if !ok {
		return nil, fault.Errorf(fault.Unavailable, "call the coordinator: none is active")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	conn := c.mu.conns[addr]
	if conn == nil {
		for old, conn := range c.mu.conns {
			_ = conn.Close() // calls that still use it are repeated at the active one
			delete(c.mu.conns, old)
		}
		var err error
		conn, err = grpc.NewClient("passthrough:///"+addr,
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return c.network.Dial(ctx, addr) }),
			grpc.WithStatsHandler(otelgrpc.NewClientHandler(otelgrpc.WithTracerProvider(c.tracers), otelgrpc.WithPropagators(propagation.TraceContext{}))),
			grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.limits.CoordinatorBytes)),
			grpc.WithConnectParams(grpc.ConnectParams{
				Backoff:           backoff.Config{BaseDelay: connectBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
				MinConnectTimeout: 3 * time.Second,
			}),
			grpc.WithDisableServiceConfig(),
		)
		if err != nil {
			return nil, fault.Errorf(fault.Unavailable, "connect to coordinator %s: %w", addr, err)
		}
		c.mu.conns[addr] = conn
	}
	return coordinatorv1.NewCoordinatorServiceClient(conn), nil
}

// again says whether a call may be repeated whose outcome is unknown.
type again bool

const (
	repeatable again = true
	onlyOnce   again = false
)

// ask makes a call of the active coordinator, and repeats it as doc.go 1 says until ctx or RetryFor ends. unsure tells that an earlier
// attempt may have been carried out. The error is a fault.
func ask[T any](ctx context.Context, c *Coordinator, repeat again,
	call func(context.Context, coordinatorv1.CoordinatorServiceClient) (T, error),
) (answer T, unsure bool, err error) {
	started := c.clock.Now()
	for step := retryFirst; ; step = min(2*step, retryLast) {
		client, failed := c.client()
		unknown := false
		if failed == nil {
			attempt, cancel := context.WithTimeout(ctx, attemptTimeout)
			answer, failed = call(attempt, client)
			cancel()
			if failed == nil {
				return answer, unsure, nil
			}
			unknown = faultwire.Reason(failed) == ""
			failed = faultwire.FromGRPC(failed)
		}
		unsure = unsure || unknown
		retry := fault.KindOf(failed).Retryable() && (!unknown || bool(repeat))
		if ctx.Err() != nil || !retry || c.clock.Now().Sub(started) >= c.limits.RetryFor {
			if unsure && !bool(repeat) && fault.KindOf(failed).Retryable() {
				failed = &fault.Error{Kind: fault.OutcomeUnknown, Op: "wait for the coordinator's answer", Err: failed}
			}
			return answer, unsure, failed
		}
		c.pause(ctx, step)
	}
}

// pause waits a step, or until another coordinator is active.
func (c *Coordinator) pause(ctx context.Context, step time.Duration) {
	wait, cancel := context.WithTimeout(ctx, step)
	defer cancel()
	was, known := c.router.Table().Coordinator()
	_, _ = c.router.WaitFor(wait, func(t route.Table) bool { // its end is what was waited for, either way
		now, ok := t.Coordinator()
		return ok && (!known || now != was)
	})
}

// EnsureTopic creates a topic with default settings. One that exists is no error.
func (c *Coordinator) EnsureTopic(ctx context.Context, name topology.Name) error {
	req := &controlv1.CreateTopicRequest{
		Namespace: name.Namespace, Topic: &controlv1.Topic{Namespace: name.Namespace, Topic: name.Topic}, RequestId: c.newID(),
	}
	_, _, err := ask(ctx, c, repeatable, func(ctx context.Context, client coordinatorv1.CoordinatorServiceClient) (*controlv1.Topic, error) {
		return client.CreateTopic(ctx, req)
	})
	if fault.Is(err, fault.Exists) {
		return nil
	}
	return err
}
