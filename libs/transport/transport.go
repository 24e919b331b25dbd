package transport

import (
	"context"
	"net"
)

// Network listens and dials. Addresses are host:port.
type Network interface {
	// Listen binds addr; port 0 picks a free one, which the listener's Addr tells.
	Listen(ctx context.Context, addr string) (net.Listener, error)
	// Dial connects to addr within ctx.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}
