package frame

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/frame/internal/outbox"
	"github.com/seedqueue/sq/proto/frame/internal/window"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// ClientConfig is what a Client is made of. The zero value has the defaults of limits.go.
type ClientConfig struct {
	MaxMessageBytes int           // of an answer without its body
	MaxBodyBytes    int           // of a body, either way; a server's smaller limit wins
	MaxInFlight     int           // Start waits when so many calls are unanswered; a server's smaller limit wins
	Budget          Budget        // for the bodies of answers; nil = unbounded
	BodyTimeout     time.Duration // how long the server may send nothing inside an answer, and how long an answer waits for the budget
	WriteTimeout    time.Duration // how long the server may take nothing
	Pool            *Pool         // nil = an own one
}

func (c ClientConfig) withDefaults() ClientConfig {
	setDefault(&c.MaxMessageBytes, DefaultMaxMessageBytes)
	setDefault(&c.MaxBodyBytes, DefaultMaxBodyBytes)
	setDefault(&c.MaxInFlight, DefaultMaxInFlight)
	setDefault(&c.BodyTimeout, DefaultStallTimeout)
	setDefault(&c.WriteTimeout, DefaultWriteTimeout)
	if c.Pool == nil {
		c.Pool = NewPool()
	}
	return c
}

func setDefault[T int | time.Duration](value *T, to T) {
	if *value <= 0 {
		*value = to
	}
}

// Client makes calls over one connection, pipelined. Its goroutines end with Close, or when the connection fails.
type Client struct {
	conn     net.Conn
	cfg      ClientConfig
	queue    *outbox.Outbox
	inflight *window.Window
	maxBody  atomic.Int64
	unknown  atomic.Uint64
	cancel   context.CancelFunc
	done     chan struct{} // closed when all calls have ended
	mu       struct {
		sync.Mutex
		pending map[uint64]*Pending
		lastID  uint64
		closed  bool  // by Close
		away    bool  // the server said goAway
		err     error // why the connection ended; nil = it has not
	}
}

// NewClient makes a Client of a connection, which it owns from now on. The first call must be Hello.
func NewClient(conn net.Conn, cfg ClientConfig) *Client {
	cfg = cfg.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	c := &Client{
		conn: conn, cfg: cfg, cancel: cancel,
		queue:    outbox.New(conn, cfg.WriteTimeout, now),
		inflight: window.New(cfg.MaxInFlight),
		done:     make(chan struct{}),
	}
	c.maxBody.Store(int64(cfg.MaxBodyBytes))
	c.mu.pending = make(map[uint64]*Pending)
	go c.write()
	go c.read(ctx)
	return c
}

// write runs the writer. Where it fails the reader gets a moment for what the server may have said before.
func (c *Client) write() {
	if err := c.queue.Run(); err != nil {
		_ = c.conn.SetReadDeadline(now().Add(lingerTimeout)) // a failed connection: the reader sees it
	}
}

// Hello opens the conversation and takes over the server's limits.
func (c *Client) Hello(ctx context.Context, h HelloParams) (ServerInfo, error) {
	reply, err := c.Call(ctx, func(req wirecapnp.Request) error {
		hello, err := req.NewHello()
		if err != nil {
			return fmt.Errorf("make hello: %w", err)
		}
		return h.write(hello)
	})
	if err != nil {
		return ServerInfo{}, err
	}
	defer reply.Release()
	hello, err := reply.Response.Hello()
	if err != nil {
		return ServerInfo{}, formatErrorf(wirecapnp.ErrorKind_invalid, "answer to hello is unreadable: %v", err)
	}
	info, err := readServerInfo(hello)
	if err != nil {
		return ServerInfo{}, formatErrorf(wirecapnp.ErrorKind_invalid, "answer to hello is unreadable: %v", err)
	}
	if info.Version != Version {
		return info, formatErrorf(wirecapnp.ErrorKind_unsupportedVersion, "server chose protocol version %d, this build speaks %d", info.Version, Version)
	}
	if info.MaxBodyBytes > 0 {
		c.maxBody.Store(min(c.maxBody.Load(), int64(info.MaxBodyBytes)))
	}
	c.inflight.Lower(info.MaxInFlight)
	return info, nil
}

// Call is Start and Wait.
func (c *Client) Call(ctx context.Context, fill func(wirecapnp.Request) error, body ...[]byte) (*Reply, error) {
	p, err := c.Start(ctx, fill, body...)
	if err != nil {
		return nil, err
	}
	return p.Wait(ctx)
}

// Start sends a request, pipelined: it returns when the request stands in the connection's queue, and waits only while MaxInFlight calls
// are unanswered. Calls started one after the other go out in that order. fill sets the call; id, timeout (from ctx), trace context (from
// ctx) and body size are set by Start. body is not copied: it must not change until the call is Done.
//
// Errors: *ConnError with Sent false, or what fill returned, or *RemoteError tooLarge.
func (c *Client) Start(ctx context.Context, fill func(wirecapnp.Request) error, body ...[]byte) (*Pending, error) {
	for _, b := range body {
		if len(b) > 0 {
			return c.StartBody(ctx, fill, Bytes(body...))
		}
	}
	return c.StartBody(ctx, fill, nil)
}

// StartBody is Start with a body that need not lie in memory, nil = none. It is the connection's from the call on, and closed once: when it
// was written, or where it is not going to be.
func (c *Client) StartBody(ctx context.Context, fill func(wirecapnp.Request) error, body Body) (*Pending, error) {
	size := 0
	if body != nil {
		size = body.Len()
	}
	if limit := c.maxBody.Load(); int64(size) > limit {
		closeBody(body)
		return nil, Errorf(wirecapnp.ErrorKind_tooLarge, "body of %d bytes is larger than the limit of %d", size, limit)
	}
	if err := c.inflight.Acquire(ctx, c.done); err != nil {
		closeBody(body)
		return nil, &ConnError{Err: c.cause(err)}
	}
	p, err := c.start(ctx, fill, size, body)
	if err != nil {
		closeBody(body)
		c.inflight.Release()
		return nil, err
	}
	return p, nil
}

func (c *Client) start(ctx context.Context, fill func(wirecapnp.Request) error, size int, body Body) (*Pending, error) {
	b, request, err := c.cfg.Pool.request(fill)
	if err != nil {
		return nil, err
	}
	defer c.cfg.Pool.release(b)
	p := &Pending{client: c, which: request.Which(), done: make(chan struct{})}
	if err := c.register(p); err != nil {
		return nil, &ConnError{Err: err}
	}
	request.SetId(p.id)
	request.SetBodyBytes(uint32(size))
	if deadline, ok := ctx.Deadline(); ok {
		request.SetTimeoutMillis(millisUntil(deadline))
	}
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		writeTrace(request, span)
	}
	item := outbox.Item{Append: b.appendTo, Done: (*sentCall)(p)}
	if size > 0 {
		item.Body, item.Slices = body, inMemory(body)
	}
	if err := c.queue.Push(item); err != nil {
		c.unregister(p)
		return nil, &ConnError{Err: c.cause(err)}
	}
	if size == 0 {
		closeBody(body) // there is nothing to write
	}
	return p, nil
}

func (c *Client) register(p *Pending) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.err != nil:
		return c.mu.err
	case c.mu.closed:
		return ErrClosed
	case c.mu.away:
		return ErrGoingAway
	}
	c.mu.lastID++
	p.id = c.mu.lastID
	c.mu.pending[p.id] = p
	return nil
}

// unregister tells whether the call was still waiting for its answer. Whoever takes it out ends it.
func (c *Client) unregister(p *Pending) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.mu.pending[p.id]
	delete(c.mu.pending, p.id)
	return ok
}

// cause prefers why the connection ended to what a step of a call saw of it.
func (c *Client) cause(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.err != nil {
		return c.mu.err
	}
	return err
}

// read is the reader goroutine: it ends the calls.
func (c *Client) read(ctx context.Context) {
	reader := newReader(c.conn, c.cfg.MaxMessageBytes, c.cfg.Pool, c.cfg.BodyTimeout)
	reader.budgetWait = c.cfg.BodyTimeout
	err := c.readAll(ctx, reader)
	c.mu.Lock()
	if c.mu.closed {
		err = ErrClosed
	}
	c.mu.err = err
	c.mu.Unlock()
	c.queue.Fail(err)
	_ = c.conn.Close() // it is of no more use
	<-c.queue.Done()   // from here on every call knows whether it was sent
	c.mu.Lock()
	rest := c.mu.pending
	c.mu.pending = make(map[uint64]*Pending)
	c.mu.Unlock()
	for _, p := range rest {
		p.answer(nil, &ConnError{Sent: p.sent.Load(), Err: err})
	}
	c.cancel()
	close(c.done)
}

func (c *Client) readAll(ctx context.Context, reader *Reader) error {
	for {
		message, err := reader.Next()
		if err != nil {
			return err
		}
		if err := c.deliver(ctx, reader, message); err != nil {
			return err
		}
		if c.drained() {
			return ErrGoingAway
		}
	}
}

// drained tells whether the server goes away and nothing is left to wait for.
func (c *Client) drained() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.away && len(c.mu.pending) == 0
}

// deliver takes the body behind a response and ends the response's call. An error ends the connection.
func (c *Client) deliver(ctx context.Context, reader *Reader, message *Message) error {
	response, err := wirecapnp.ReadRootResponse(message.Capnp())
	if err != nil {
		message.Release()
		return formatErrorf(wirecapnp.ErrorKind_invalid, "response is unreadable: %v", err)
	}
	size := int64(response.BodyBytes())
	if size > int64(c.cfg.MaxBodyBytes) {
		message.Release()
		return formatErrorf(wirecapnp.ErrorKind_tooLarge, "body of %d bytes is larger than the limit of %d", size, c.cfg.MaxBodyBytes)
	}
	var body *Buffer
	if size > 0 {
		body, err = reader.Body(ctx, int(size), c.cfg.Budget)
		if err != nil && !errors.Is(err, ErrOverBudget) {
			message.Release()
			return err
		}
	}
	if response.Id() == 0 {
		defer message.Release()
		body.Release()
		return c.notice(response)
	}
	c.mu.Lock()
	p, ok := c.mu.pending[response.Id()]
	delete(c.mu.pending, response.Id())
	c.mu.Unlock()
	if !ok {
		c.unknown.Add(1)
		message.Release()
		body.Release()
		return nil
	}
	reply := &Reply{Response: response, Body: body.content(), message: message, buffer: body}
	if err == nil {
		err = p.check(response)
	}
	if err != nil {
		reply.Release()
		reply = nil
	}
	p.answer(reply, err)
	return nil
}

// notice takes what a server says unasked.
func (c *Client) notice(response wirecapnp.Response) error {
	switch response.Which() {
	case wirecapnp.Response_Which_goAway:
		c.mu.Lock()
		c.mu.away = true
		c.mu.Unlock()
		return nil
	case wirecapnp.Response_Which_error:
		remote, err := response.Error()
		if err != nil {
			return formatErrorf(wirecapnp.ErrorKind_invalid, "response is unreadable: %v", err)
		}
		return ReadError(remote)
	default:
		return nil // of a later version
	}
}

// Done is closed when the connection has ended and every call with it.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err tells why the connection ended; nil while it has not.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.err
}

// GoingAway tells whether the server takes no more calls; those in flight are still answered.
func (c *Client) GoingAway() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.away
}

// UnknownAnswers counts answers that belonged to no call.
func (c *Client) UnknownAnswers() uint64 { return c.unknown.Load() }

// InFlight counts the calls that are not Done.
func (c *Client) InFlight() int { return c.inflight.Count() }

// RemoteAddr is the server's.
func (c *Client) RemoteAddr() net.Addr { return c.conn.RemoteAddr() }

// Close ends the connection; calls in flight end with ConnError. It returns when the client's goroutines have ended.
func (c *Client) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	c.mu.Unlock()
	c.cancel()
	err := c.conn.Close()
	<-c.done
	if err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close connection: %w", err)
	}
	return nil
}
