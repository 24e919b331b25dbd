package data

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// client is one connection.
type client struct {
	server *Server
	caller *upstream.Caller
	work   sync.WaitGroup
}

// close joins what was done for the connection; its requests have been answered.
func (c *client) close() {
	c.caller.Close()
	c.work.Wait()
}

// call is one request under way: what is to be counted and told when it ends.
type call struct {
	server  *Server
	req     *frame.Request
	name    string
	started time.Time
	span    trace.Span
}

func (c *client) begin(ctx context.Context, req *frame.Request, name string) (context.Context, *call) {
	ctx, span := c.server.tracer.Start(ctx, "sq.gateway "+name, trace.WithSpanKind(trace.SpanKindServer))
	return ctx, &call{server: c.server, req: req, name: name, started: c.server.cfg.Clock.Now(), span: span}
}

// fail answers with an error.
func (k *call) fail(err error) {
	k.span.SetStatus(codes.Error, err.Error())
	k.end(fault.KindOf(err).String())
	_ = k.req.Fail(remote(err)) // where it fails the connection has ended
}

// end counts; the answer follows.
func (k *call) end(result string) {
	m := k.server.metrics
	usual := m.bound[k.name]
	if result == resultOK {
		usual.ok.Inc()
	} else {
		m.requests.WithLabelValues(k.name, result).Inc()
	}
	usual.seconds.Observe(k.server.cfg.Clock.Now().Sub(k.started).Seconds())
	k.span.End()
}

// spawn serves a request beside the read loop. The number of requests in flight bounds the goroutines.
func (c *client) spawn(ctx context.Context, req *frame.Request, name string, serve func(context.Context, *call)) {
	ctx, k := c.begin(ctx, req, name)
	c.work.Go(func() {
		defer func() {
			if cause := recover(); cause != nil {
				c.server.cfg.Log.Error("data call panicked", "call", name, "err", panicked(cause), "stack", string(debug.Stack()))
				_ = req.Fail(remote(fault.Errorf(fault.Internal, "serve %s: the gateway failed", name))) // perhaps it was answered before
			}
		}()
		serve(ctx, k)
	})
}

// partitionOf reads the partition that a request is about; err is what reading the request itself gave.
func partitionOf(in interface {
	Topic() (batchcapnp.Uuid, error)
	Partition() uint32
}, err error,
) (partition.ID, error) {
	if err != nil {
		return partition.ID{}, unreadable(err)
	}
	topic, err := in.Topic()
	if err != nil {
		return partition.ID{}, unreadable(err)
	}
	return partition.ID{Topic: partition.UUIDOf(topic.Hi(), topic.Lo()), Index: partition.Index(in.Partition())}, nil
}
