package memnet

import (
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Addr is a memnet address, host:port.
type Addr string

// Network gives "mem".
func (Addr) Network() string { return "mem" }

// String gives host:port.
func (a Addr) String() string { return string(a) }

// Conn is one end of a connection.
type Conn struct {
	local, remote Addr
	in, out       *pipe
	closed        atomic.Bool
}

var _ net.Conn = (*Conn)(nil)

func (c *Conn) explain(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.Reader promises the bare io.EOF
		return err
	}
	if c.closed.Load() {
		err = net.ErrClosed
	}
	return &net.OpError{Op: op, Net: c.local.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// Read reads what has arrived.
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return n, c.explain("read", err)
}

// Write blocks while the connection's buffer is full.
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return n, c.explain("write", err)
}

// CloseWrite ends the stream to the peer; reading goes on.
func (c *Conn) CloseWrite() error {
	if c.closed.Load() {
		return c.explain("close", net.ErrClosed)
	}
	c.out.end()
	return nil
}

// Close ends both directions. What was written before still arrives.
func (c *Conn) Close() error {
	if c.closed.Swap(true) {
		return c.explain("close", net.ErrClosed)
	}
	c.out.end()
	c.in.abandon()
	return nil
}

// LocalAddr gives this end's address.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr gives the other end's.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines; the zero time is none.
func (c *Conn) SetDeadline(t time.Time) error {
	if err := c.SetReadDeadline(t); err != nil {
		return err
	}
	return c.SetWriteDeadline(t)
}

// SetReadDeadline makes reads fail from t on, those under way too.
func (c *Conn) SetReadDeadline(t time.Time) error {
	return c.setDeadline(c.in, &c.in.mu.readDeadline, t)
}

// SetWriteDeadline makes writes fail from t on, those under way too.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(c.out, &c.out.mu.writeDeadline, t)
}

func (c *Conn) setDeadline(p *pipe, deadline *time.Time, t time.Time) error {
	if c.closed.Load() {
		return c.explain("set deadline", net.ErrClosed)
	}
	p.update(func() { *deadline = t })
	return nil
}

// reset breaks both directions for both ends.
func (c *Conn) reset(err error) {
	c.in.fail(err)
	c.out.fail(err)
}
