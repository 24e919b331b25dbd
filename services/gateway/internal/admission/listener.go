package admission

import (
	"net"
	"sync"
)

// Limit bounds the connections of a listener that are open at once: more wait in the backlog of the operating system.
func Limit(listener net.Listener, most int) net.Listener {
	return &limited{Listener: listener, free: make(chan struct{}, most), closed: make(chan struct{})}
}

type limited struct {
	net.Listener
	free   chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.free <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		<-l.free
		return nil, err //nolint:wrapcheck // it is a listener.
	}
	return &counted{Conn: conn, leave: func() { <-l.free }}, nil
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close() //nolint:wrapcheck // it is a listener.
}

type counted struct {
	net.Conn
	once  sync.Once
	leave func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.once.Do(c.leave)
	return c.Conn.Close() //nolint:wrapcheck // it is a connection.
}
