package tcpnet

import (
	"context"
	"net"
	"time"

	"github.com/seedqueue/sq/libs/transport"
)

// keepAlive finds a dead peer after 15 + 3·5 s.
//
//nolint:gochecknoglobals // a constant: Go has no constant structs.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Network is the machine's TCP.
type Network struct{}

var _ transport.Network = Network{}

// New gives it.
func New() Network { return Network{} }

// Listen binds addr, with a wildcard host on every address of the machine.
func (Network) Listen(ctx context.Context, addr string) (net.Listener, error) {
	c := net.ListenConfig{KeepAliveConfig: keepAlive}
	return c.Listen(ctx, "tcp", addr) // Go sets TCP_NODELAY on what it accepts and dials
}

// Dial connects to addr.
func (Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: keepAlive}
	return d.DialContext(ctx, "tcp", addr)
}
