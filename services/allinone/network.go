package allinone

import (
	"context"
	"net"

	"github.com/seedqueue/sq/libs/transport"
)

// edge is the gateway's network: it listens outside and dials inside.
type edge struct {
	outside, inside transport.Network
}

// Listen binds outside.
func (e edge) Listen(ctx context.Context, addr string) (net.Listener, error) {
	return e.outside.Listen(ctx, addr) //nolint:wrapcheck // a network's error names the address.
}

// Dial connects inside.
func (e edge) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return e.inside.Dial(ctx, addr) //nolint:wrapcheck // a network's error names the address.
}
