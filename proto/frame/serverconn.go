package frame

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"github.com/seedqueue/sq/proto/frame/internal/outbox"
	"github.com/seedqueue/sq/proto/frame/internal/window"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// serverConn is one connection of a Server. serve owns it.
type serverConn struct {
	server   *Server
	conn     net.Conn
	queue    *outbox.Outbox
	reader   *Reader
	inflight *window.Window
	session  *Session // nil before Hello; set and read by the read loop
	budget   Budget   // as session
	ended    chan struct{}
	stopOnce sync.Once
	stopped  chan struct{} // closed: do not go on
}

func newServerConn(s *Server, conn net.Conn) *serverConn {
	c := &serverConn{
		server:   s,
		conn:     conn,
		queue:    outbox.New(conn, s.cfg.WriteTimeout, now),
		reader:   newReader(conn, HelloMessageBytes, s.cfg.Pool, s.cfg.StallTimeout),
		inflight: window.New(s.cfg.MaxInFlight),
		ended:    make(chan struct{}),
		stopped:  make(chan struct{}),
	}
	c.reader.budgetWait, c.reader.stopped = budgetWait, c.stopped
	return c
}

// stop makes serve end soon: the writer finishes what it has, the reader does not.
func (c *serverConn) stop() {
	c.stopOnce.Do(func() {
		close(c.stopped)
		_ = c.conn.SetReadDeadline(now()) // where it fails the connection has ended
	})
}

// serve reads the connection to its end.
func (c *serverConn) serve(parent context.Context) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	var writer sync.WaitGroup
	writer.Go(func() {
		if err := c.queue.Run(); err != nil {
			c.stop()
		}
	})
	abort := context.AfterFunc(parent, func() {
		c.queue.Fail(ErrClosed)
		c.stop()
		_ = c.conn.Close() // at once, as Serve says
	})
	defer abort()
	c.reader.setUntil(now().Add(c.server.cfg.HelloTimeout))
	err := c.readLoop(ctx)
	if c.session == nil {
		c.server.stats.unauthenticated.Add(-1)
	}
	cancel() // what waits for records or for room gives up
	c.finish(parent, err)
	c.queue.Close()
	writer.Wait()
	c.linger(err)
	_ = c.conn.Close() // it has ended
	close(c.ended)
	if c.session != nil && c.server.cfg.Closed != nil {
		c.server.cfg.Closed(c.session)
	}
}

// finish tells a client what was wrong with its stream, and lets the answers to what it asked before go out.
func (c *serverConn) finish(ctx context.Context, err error) {
	if !errors.Is(err, io.EOF) {
		c.server.cfg.Log.DebugContext(ctx, "connection ends", "remote", c.conn.RemoteAddr().String(), "err", err)
	}
	_, told := errors.AsType[toldError](err)
	switch {
	case told, errors.Is(err, io.EOF):
	case malformed(err):
		c.server.stats.malformed.Add(1)
		c.tell(remoteOf(err))
	default:
		select {
		case <-c.stopped: // the session was closed or drained: what is queued is still written
		default:
			c.queue.Fail(err)
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, c.server.cfg.WriteTimeout)
	defer cancel()
	_ = c.inflight.None(ctx) // handlers answer; one that does not loses the chance
}

// malformed tells whether the client's bytes are to blame and it may still listen.
func malformed(err error) bool {
	if errors.Is(err, ErrStalled) || errors.Is(err, ErrTruncated) {
		return true
	}
	if _, ok := errors.AsType[*FormatError](err); ok {
		return true
	}
	if _, ok := errors.AsType[toldError](err); ok {
		return true
	}
	_, ok := errors.AsType[*RemoteError](err)
	return ok
}

// tell queues an error that answers no request.
func (c *serverConn) tell(err *RemoteError) { c.push(err.fill) }

func (c *serverConn) push(fill func(wirecapnp.Response) error) {
	b, _, err := c.server.cfg.Pool.response(fill)
	if err != nil {
		return // it would have been a courtesy
	}
	defer c.server.cfg.Pool.release(b)
	_ = c.queue.Push(outbox.Item{Append: b.appendTo}) // where it fails nobody listens
}

// linger reads on for a moment behind a last error: closing with unread bytes resets the connection and may take the error along.
func (c *serverConn) linger(err error) {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || !malformed(err) {
		return
	}
	if half.CloseWrite() != nil || c.conn.SetReadDeadline(now().Add(lingerTimeout)) != nil {
		return
	}
	scratch := make([]byte, 4096)
	for {
		if _, err := c.conn.Read(scratch); err != nil {
			return
		}
	}
}

// drain says goAway and ends the connection when nothing is in flight for the grace time, or when ctx ends.
func (c *serverConn) drain(ctx context.Context) {
	c.push(goAwayFill)
	defer c.abort()
	for {
		if c.inflight.None(ctx) != nil {
			return
		}
		timer := time.NewTimer(goAwayGrace)
		select {
		case <-c.ended:
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if c.inflight.Count() == 0 {
			return
		}
	}
}

// abort ends the connection; what is queued may be lost.
func (c *serverConn) abort() {
	c.stop()
	_ = c.conn.Close() // serve sees it
}

// readLoop hands requests to the handler until the stream ends; it never returns nil.
func (c *serverConn) readLoop(ctx context.Context) error {
	for {
		message, err := c.reader.Next()
		if err != nil {
			return err
		}
		if err := c.request(ctx, message); err != nil {
			return err
		}
		select {
		case <-c.stopped:
			return ErrClosed
		default:
		}
	}
}

// request takes one request with its body. An error ends the connection.
func (c *serverConn) request(ctx context.Context, message *Message) error {
	in, err := wirecapnp.ReadRootRequest(message.Capnp())
	if err != nil || !in.IsValid() {
		message.Release()
		return formatErrorf(wirecapnp.ErrorKind_invalid, "request is unreadable: %v", err)
	}
	r := &Request{Message: in, Session: c.session, id: in.Id(), conn: c, message: message}
	if r.id == 0 {
		message.Release()
		return formatErrorf(wirecapnp.ErrorKind_invalid, "request has id 0")
	}
	if c.session == nil && (in.Which() != wirecapnp.Request_Which_hello || in.BodyBytes() != 0) {
		message.Release()
		return Errorf(wirecapnp.ErrorKind_unauthenticated, "the first message must be hello, without a body")
	}
	if err := c.inflight.Acquire(ctx, c.stopped); err != nil {
		message.Release()
		return err
	}
	if refused, err := c.body(ctx, r); err != nil {
		c.inflight.Release()
		message.Release()
		return err
	} else if refused != nil {
		_ = r.Fail(refused) // where it fails the connection has ended
		return nil
	}
	c.server.stats.requests.Add(1)
	return c.dispatch(ctx, r)
}

// body reads the body of a request. refused is to be answered, the stream being intact.
func (c *serverConn) body(ctx context.Context, r *Request) (refused *RemoteError, err error) {
	size := int64(r.Message.BodyBytes())
	limit := int64(c.server.cfg.MaxBodyBytes)
	switch {
	case size == 0:
		return nil, nil
	case size > drainFactor*limit:
		return nil, Errorf(wirecapnp.ErrorKind_tooLarge, "body of %d bytes is larger than the limit of %d", size, limit)
	case size > limit:
		if err := c.reader.Skip(size); err != nil {
			return nil, err
		}
		return Errorf(wirecapnp.ErrorKind_tooLarge, "body of %d bytes is larger than the limit of %d", size, limit), nil
	}
	r.buffer, err = c.reader.Body(ctx, int(size), c.budget)
	if errors.Is(err, ErrOverBudget) {
		c.server.stats.overBudget.Add(1)
		return remoteOf(err), nil
	}
	r.Body = r.buffer.content()
	return nil, err
}

// dispatch answers what belongs to the connection itself and hands on the rest.
func (c *serverConn) dispatch(ctx context.Context, r *Request) error {
	switch which := r.Message.Which(); {
	case which == wirecapnp.Request_Which_hello:
		return c.hello(ctx, r)
	case which == wirecapnp.Request_Which_ping:
		_ = r.Reply(func(response wirecapnp.Response) error {
			response.SetPong()
			return nil
		}, nil) // where it fails the connection has ended
		return nil
	case int(which) >= len(answers):
		_ = r.Fail(Errorf(wirecapnp.ErrorKind_unsupportedVersion, "request kind %d is not known to protocol version %d", which, Version))
		return nil
	}
	timeout := time.Duration(r.Message.TimeoutMillis()) * time.Millisecond
	if timeout == 0 {
		timeout = c.server.cfg.DefaultTimeout
	}
	r.ctx.begin(withTrace(ctx, r.Message), now().Add(min(timeout, c.server.cfg.MaxTimeout)))
	return c.handle(&r.ctx, r) //nolint:contextcheck // it is made of ctx
}

// handle calls the handler; its panic costs this connection only.
func (c *serverConn) handle(ctx context.Context, r *Request) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			c.server.stats.panics.Add(1)
			c.server.cfg.Log.ErrorContext(ctx, "handler panicked", "remote", c.conn.RemoteAddr().String(),
				"err", fmt.Sprint(cause), "stack", string(debug.Stack()))
			err = Errorf(wirecapnp.ErrorKind_internal, "request made the server fail")
			_ = r.Fail(Errorf(wirecapnp.ErrorKind_internal, "request made the server fail")) // perhaps it was answered before
		}
	}()
	c.server.cfg.Handler.Handle(ctx, r)
	return nil
}

// hello opens the session.
func (c *serverConn) hello(ctx context.Context, r *Request) error {
	if c.session != nil {
		_ = r.Fail(Errorf(wirecapnp.ErrorKind_invalid, "hello was said already"))
		return nil
	}
	in, err := r.Message.Hello()
	var hello HelloInfo
	var refused *RemoteError
	if err != nil {
		refused = Errorf(wirecapnp.ErrorKind_invalid, "hello is unreadable: %v", err)
	} else {
		hello, refused = readHello(in, c.conn.RemoteAddr())
	}
	var info ServerInfo
	if refused == nil {
		info, refused = c.server.cfg.Accept(ctx, hello)
	}
	if refused != nil {
		_ = r.Fail(refused) // where it fails the connection has ended
		return toldError{refused}
	}
	info.Version = hello.Version
	setDefault(&info.MaxMessageBytes, c.server.cfg.MaxMessageBytes)
	setDefault(&info.MaxBodyBytes, c.server.cfg.MaxBodyBytes)
	setDefault(&info.MaxInFlight, c.server.cfg.MaxInFlight)
	c.session, c.budget = &Session{Hello: hello, conn: c}, c.server.cfg.Budget
	if c.server.cfg.BudgetOf != nil {
		c.budget = c.server.cfg.BudgetOf(hello)
	}
	c.server.stats.unauthenticated.Add(-1)
	c.reader.setUntil(time.Time{})
	c.reader.SetMaxMessage(c.server.cfg.MaxMessageBytes)
	_ = r.Reply(func(response wirecapnp.Response) error {
		out, err := response.NewHello()
		if err != nil {
			return fmt.Errorf("make hello: %w", err)
		}
		return info.write(out)
	}, nil) // where it fails the connection has ended
	return nil
}

// toldError ends a connection whose client has been told in the answer to its Hello.
type toldError struct{ cause *RemoteError }

func (e toldError) Error() string { return "hello refused: " + e.cause.Error() }
