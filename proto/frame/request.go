package frame

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/frame/internal/outbox"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Handler serves the requests of a Server's connections.
type Handler interface {
	// Handle takes a request, on its connection's read loop and in the order of the wire: whatever may wait must be done elsewhere. It may keep
	// req and answer later from any goroutine; it must answer exactly once. ctx carries the caller's deadline and trace context and ends with
	// the connection, or with the answer.
	Handle(ctx context.Context, req *Request)
}

// HandlerFunc makes a Handler of a function.
type HandlerFunc func(ctx context.Context, req *Request)

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, req *Request) { f(ctx, req) }

// Session is one connection of a Server after Hello.
type Session struct {
	Hello HelloInfo
	conn  *serverConn
	mu    struct {
		sync.Mutex
		value any
	}
}

// RemoteAddr is the client's.
func (s *Session) RemoteAddr() net.Addr { return s.Hello.Remote }

// Done is closed when the connection has ended.
func (s *Session) Done() <-chan struct{} { return s.conn.ended }

// Value gives what SetValue set: the handler's own data of this connection.
func (s *Session) Value() any {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.value
}

// SetValue keeps the handler's own data of this connection.
func (s *Session) SetValue(value any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.value = value
}

// Close tells the client why and ends the connection, without waiting for it.
func (s *Session) Close(reason *RemoteError) {
	s.conn.tell(reason)
	s.conn.queue.Close()
	s.conn.stop()
}

// Request is a call to answer. Message and Body may be used until it is answered.
type Request struct {
	Message wirecapnp.Request
	Body    []byte // nil: none
	Session *Session

	id       uint64
	conn     *serverConn
	message  *Message
	buffer   *Buffer
	ctx      requestContext
	answered atomic.Bool
}

// TakeBody hands the body over: it outlives the answer and is released by its new owner. nil if there is none. Call it before the answer.
func (r *Request) TakeBody() *Buffer {
	buffer := r.buffer
	r.buffer, r.Body = nil, nil
	return buffer
}

// Reply answers. fill sets the member of the response; id and body size are set here. body may be nil; it is closed in any case, when it has
// been written or cannot be. After the first answer ErrAnswered is returned. Other errors say that the connection has ended, and need no
// reaction. It does not wait for the client to read.
func (r *Request) Reply(fill func(wirecapnp.Response) error, body Body) error {
	if r.answered.Swap(true) {
		closeBody(body)
		return ErrAnswered
	}
	err := r.reply(fill, body)
	r.ctx.end()
	r.message.Release()
	r.buffer.Release()
	r.Message, r.Body, r.message, r.buffer = wirecapnp.Request{}, nil, nil, nil
	return err
}

func (r *Request) reply(fill func(wirecapnp.Response) error, body Body) error {
	b, response, err := r.conn.server.cfg.Pool.response(fill)
	if err != nil {
		closeBody(body)
		body = nil
		remote := Errorf(wirecapnp.ErrorKind_internal, "answer cannot be built")
		if b, response, err = r.conn.server.cfg.Pool.response(remote.fill); err != nil {
			r.conn.stop()
			r.conn.inflight.Release()
			return err
		}
	}
	defer r.conn.server.cfg.Pool.release(b)
	response.SetId(r.id)
	if body != nil && body.Len() == 0 {
		closeBody(body)
		body = nil
	}
	if body != nil {
		response.SetBodyBytes(uint32(body.Len()))
	}
	if err := r.conn.queue.Push(outbox.Item{Append: b.appendTo, Body: body, Slices: inMemory(body), Done: (*writtenRequest)(r)}); err != nil {
		closeBody(body)
		r.conn.inflight.Release()
		return fmt.Errorf("answer: %w", err)
	}
	return nil
}

// Fail answers with an error.
func (r *Request) Fail(err *RemoteError) error { return r.Reply(err.fill, nil) }

// writtenRequest is a Request as its outbox sees it.
type writtenRequest Request

// Written implements outbox.Outcome.
func (r *writtenRequest) Written(bool) { r.conn.inflight.Release() }

// fill makes a response of an error.
func (e *RemoteError) fill(response wirecapnp.Response) error {
	out, err := response.NewError()
	if err != nil {
		return fmt.Errorf("make error: %w", err)
	}
	return e.Write(out)
}

func closeBody(body Body) {
	if body != nil {
		_ = body.Close() // what it held is released; nothing to report
	}
}

// requestContext is a context with a deadline whose timer is made only when somebody waits for it: most calls are answered without.
type requestContext struct {
	parent   context.Context //nolint:containedctx // it is one
	deadline time.Time
	mu       struct {
		sync.Mutex
		inner  context.Context //nolint:containedctx // it is one
		cancel context.CancelFunc
		ended  bool
	}
}

func (c *requestContext) begin(parent context.Context, deadline time.Time) {
	c.parent, c.deadline = parent, deadline
}

// Deadline implements context.Context.
func (c *requestContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} { return c.real().Done() }

// Err implements context.Context.
func (c *requestContext) Err() error { return c.real().Err() }

// Value implements context.Context. A context made of this one finds the real one by it.
func (c *requestContext) Value(key any) any {
	c.mu.Lock()
	inner := c.mu.inner
	c.mu.Unlock()
	if inner == nil {
		inner = c.parent
	}
	return inner.Value(key)
}

func (c *requestContext) real() context.Context {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.inner == nil {
		inner, cancel := context.WithDeadline(c.parent, c.deadline)
		if c.mu.ended {
			cancel()
		}
		c.mu.inner, c.mu.cancel = inner, cancel //nolint:fatcontext // it is made once
	}
	return c.mu.inner
}

func (c *requestContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.ended = true
	if c.mu.cancel != nil {
		c.mu.cancel()
	}
}

// withTrace puts the caller's trace context into ctx.
func withTrace(ctx context.Context, in wirecapnp.Request) context.Context {
	if in.TraceIdHi() == 0 && in.TraceIdLo() == 0 {
		return ctx
	}
	var traceID trace.TraceID
	var spanID trace.SpanID
	binary.BigEndian.PutUint64(traceID[:8], in.TraceIdHi())
	binary.BigEndian.PutUint64(traceID[8:], in.TraceIdLo())
	binary.BigEndian.PutUint64(spanID[:], in.SpanId())
	return trace.ContextWithRemoteSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: traceID, SpanID: spanID, TraceFlags: trace.TraceFlags(in.TraceFlags()), Remote: true,
	}))
}
