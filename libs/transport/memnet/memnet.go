package memnet

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/transport"
)

const (
	// backlog is how many dials an address holds that nobody has accepted.
	backlog = 128
	// firstPort is the first that port 0 gives.
	firstPort = 49152
	localhost = "127.0.0.1"
)

// Network is a network in memory. It is itself the host 127.0.0.1.
type Network struct {
	*Host
	clock clock.Clock
	mu    struct {
		sync.Mutex
		listeners map[Addr]*listener
		links     map[[2]string]*link
		nextPort  int
	}
}

// Option changes what New makes.
type Option func(*Network)

// Clock sets what delays and deadlines are measured by; without it, the real one.
func Clock(c clock.Clock) Option { return func(n *Network) { n.clock = c } }

// New makes a network where everything arrives at once.
func New(options ...Option) *Network {
	n := &Network{clock: clock.Real()}
	n.mu.listeners = map[Addr]*listener{}
	n.mu.links = map[[2]string]*link{}
	n.mu.nextPort = firstPort
	n.Host = n.At(localhost)
	for _, option := range options {
		option(n)
	}
	return n
}

// Host is a machine on the network.
type Host struct {
	network *Network
	name    string
}

var _ transport.Network = (*Host)(nil)

// At gives the host of a name, which need not exist before.
func (n *Network) At(name string) *Host { return &Host{network: n, name: name} }

func (n *Network) link(from, to string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := [2]string{from, to}
	if n.mu.links[key] == nil {
		n.mu.links[key] = newLink()
	}
	return n.mu.links[key]
}

// Cut stops the bytes between two hosts, in both directions.
func (n *Network) Cut(a, b string) {
	n.CutOneWay(a, b)
	n.CutOneWay(b, a)
}

// CutOneWay stops the bytes of one direction.
func (n *Network) CutOneWay(from, to string) {
	n.link(from, to).set(func(s *linkState) { s.cut = true })
}

// Heal lets what Cut stopped arrive, in both directions.
func (n *Network) Heal(a, b string) {
	for _, l := range []*link{n.link(a, b), n.link(b, a)} {
		l.set(func(s *linkState) { s.cut = false })
	}
}

// Delay makes bytes written from now on arrive d later, in one direction.
func (n *Network) Delay(from, to string, d time.Duration) {
	n.link(from, to).set(func(s *linkState) { s.delay = d })
}

// Drip lets a read see at most so many bytes, in one direction; 0 = as many as there are.
func (n *Network) Drip(from, to string, bytes int) {
	n.link(from, to).set(func(s *linkState) { s.drip = bytes })
}

// Reset breaks the connections between two hosts, as a machine does that has lost its memory of them.
func (n *Network) Reset(a, b string) {
	for _, l := range []*link{n.link(a, b), n.link(b, a)} {
		for _, p := range l.all() {
			p.fail(syscall.ECONNRESET)
		}
	}
}

func opError(op string, addr string, err error) error {
	return &net.OpError{Op: op, Net: Addr(addr).Network(), Addr: Addr(addr), Err: err}
}

// resolve makes a host's address whole: no host and a wildcard are the host itself.
func (h *Host) resolve(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	if port, err = strconv.Atoi(text); err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("bad port %q", text)
	}
	switch host {
	case "", "0.0.0.0", "::", "localhost":
		host = h.name
	}
	return host, port, nil
}

func join(host string, port int) Addr { return Addr(net.JoinHostPort(host, strconv.Itoa(port))) }

// Listen binds addr, whatever host it names.
func (h *Host) Listen(ctx context.Context, addr string) (net.Listener, error) {
	if err := ctx.Err(); err != nil {
		return nil, opError("listen", addr, err)
	}
	host, port, err := h.resolve(addr)
	if err != nil {
		return nil, opError("listen", addr, err)
	}
	n, free := h.network, port == 0
	n.mu.Lock()
	defer n.mu.Unlock()
	for port == 0 || (free && n.mu.listeners[join(host, port)] != nil) {
		port = n.mu.nextPort
		n.mu.nextPort++
	}
	bound := join(host, port)
	if n.mu.listeners[bound] != nil {
		return nil, opError("listen", addr, syscall.EADDRINUSE)
	}
	l := &listener{host: h, addr: bound, incoming: make(chan *Conn, backlog), closed: make(chan struct{})}
	n.mu.listeners[bound] = l
	return l, nil
}

// Dial connects to addr, waiting while a cut is between.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := h.resolve(addr)
	if err != nil {
		return nil, opError("dial", addr, err)
	}
	conn, err := h.dial(ctx, join(host, port))
	if err != nil {
		return nil, opError("dial", addr, err)
	}
	return conn, nil
}

func (h *Host) dial(ctx context.Context, addr Addr) (net.Conn, error) {
	n := h.network
	for {
		n.mu.Lock()
		l := n.mu.listeners[addr]
		n.mu.Unlock()
		if l == nil {
			return nil, syscall.ECONNREFUSED
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		there, back := n.link(h.name, l.host.name), n.link(l.host.name, h.name)
		thereState, thereChanged := there.watch()
		backState, backChanged := back.watch()
		if thereState.cut || backState.cut {
			select {
			case <-thereChanged:
			case <-backChanged:
			case <-ctx.Done():
			}
			continue
		}
		near, far := h.pair(l, there, back)
		select {
		case l.incoming <- far:
			if l.isClosed() { // perhaps after its Close has drained
				l.drain()
				return nil, syscall.ECONNREFUSED
			}
			return near, nil
		case <-l.closed:
			near.reset(syscall.ECONNREFUSED)
			return nil, syscall.ECONNREFUSED
		case <-ctx.Done():
			near.reset(syscall.ECONNREFUSED)
			return nil, ctx.Err()
		}
	}
}

// pair makes the two ends of a connection to l.
func (h *Host) pair(l *listener, there, back *link) (near, far *Conn) {
	n := h.network
	n.mu.Lock()
	local := join(h.name, n.mu.nextPort)
	n.mu.nextPort++
	n.mu.Unlock()
	out, in := newPipe(n.clock, there, back), newPipe(n.clock, back, there)
	return &Conn{local: local, remote: l.addr, in: in, out: out}, &Conn{local: l.addr, remote: local, in: out, out: in}
}

type listener struct {
	host     *Host
	addr     Addr
	incoming chan *Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *listener) Accept() (net.Conn, error) {
	if l.isClosed() {
		return nil, opError("accept", string(l.addr), net.ErrClosed)
	}
	select {
	case c := <-l.incoming:
		return c, nil
	case <-l.closed:
		return nil, opError("accept", string(l.addr), net.ErrClosed)
	}
}

// Close refuses new dials and resets those that nobody has accepted.
func (l *listener) Close() error {
	err := opError("close", string(l.addr), net.ErrClosed)
	l.once.Do(func() {
		err = nil
		n := l.host.network
		n.mu.Lock()
		delete(n.mu.listeners, l.addr)
		n.mu.Unlock()
		close(l.closed)
	})
	l.drain()
	return err
}

func (l *listener) isClosed() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

func (l *listener) drain() {
	for {
		select {
		case c := <-l.incoming:
			c.reset(syscall.ECONNRESET)
		default:
			return
		}
	}
}

func (l *listener) Addr() net.Addr { return l.addr }
