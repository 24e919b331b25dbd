package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// dialTimeout bounds the attempt to connect to one address, Hello included.
const dialTimeout = 5 * time.Second

// Config is what a Link is made of.
type Config struct {
	Addrs []string
	First int // the address to begin with: clients spread over the gateways
	Dial  func(ctx context.Context, network, addr string) (net.Conn, error)
	TLS   *tls.Config // nil = plain
	Hello frame.HelloParams
	Pool  *frame.Pool
	Log   *slog.Logger
	// AnswerTimeout is how long a gateway may send nothing inside an answer.
	AnswerTimeout time.Duration
}

// Link is a connection to some gateway, made anew when it is lost, at the next address.
type Link struct {
	cfg Config
	mu  struct {
		sync.Mutex
		current *frame.Client
		olds    []*frame.Client // going away: calls in flight are still answered
		dialing chan struct{}   // closed when the dial that goes on has ended; nil = none
		next    int             // address
		closed  bool
	}
}

// NewLink makes a Link that connects when it is used. Close it.
func NewLink(cfg Config) *Link {
	l := &Link{cfg: cfg}
	l.mu.next = cfg.First
	return l
}

// Get gives a connection that takes calls, dialling if need be: every address once. One dial goes on at a time; who else asks waits for it.
func (l *Link) Get(ctx context.Context) (*frame.Client, error) {
	for {
		l.mu.Lock()
		if l.mu.closed {
			l.mu.Unlock()
			return nil, fault.ErrClosed
		}
		if conn := l.usable(); conn != nil {
			l.mu.Unlock()
			return conn, nil
		}
		dialing := l.mu.dialing
		if dialing == nil {
			l.mu.dialing = make(chan struct{})
			l.mu.Unlock()
			return l.dial(ctx)
		}
		l.mu.Unlock()
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// usable needs mu.
func (l *Link) usable() *frame.Client {
	conn := l.mu.current
	if conn == nil {
		return nil
	}
	if conn.Err() == nil && !conn.GoingAway() {
		return conn
	}
	l.mu.current = nil
	l.mu.olds = append(l.mu.olds, conn)
	l.mu.next++
	return nil
}

// dial tries every address once and tells those who wait. A definite refusal of a gateway is the answer of the cluster.
func (l *Link) dial(ctx context.Context) (*frame.Client, error) {
	var conn *frame.Client
	var failed error
	for range l.cfg.Addrs {
		l.mu.Lock()
		addr := l.cfg.Addrs[l.mu.next%len(l.cfg.Addrs)]
		l.mu.Unlock()
		var err error
		conn, err = l.connect(ctx, addr)
		if err == nil {
			failed = nil
			break
		}
		failed = errors.Join(failed, fmt.Errorf("connect to %s: %w", addr, err))
		l.mu.Lock()
		l.mu.next++
		l.mu.Unlock()
		if remote := refusal(err); remote != nil {
			failed = &fault.Error{Kind: remote.Kind, Err: fmt.Errorf("connect to %s: %w", addr, remote.Err)}
			break
		}
		if ctx.Err() != nil {
			break
		}
	}
	l.reap()
	l.mu.Lock()
	close(l.mu.dialing)
	l.mu.dialing = nil
	if conn != nil && l.mu.closed {
		l.mu.olds = append(l.mu.olds, conn)
		conn, failed = nil, fault.ErrClosed
	}
	if conn != nil {
		l.mu.current = conn
	}
	closed := l.mu.closed
	l.mu.Unlock()
	if closed {
		l.Close()
	}
	if failed != nil && ctx.Err() == nil && refusal(failed) == nil && !errors.Is(failed, fault.ErrClosed) {
		failed = &fault.Error{Kind: wirecapnp.ErrorKind_unavailable, Err: fault.Plain(failed)}
	}
	return conn, failed
}

// refusal finds what a gateway has answered for good: another gateway would say the same.
func refusal(err error) *fault.Error {
	if _, lost := errors.AsType[*frame.ConnError](err); lost {
		return nil
	}
	e := fault.Of("", err)
	switch e.Kind {
	case wirecapnp.ErrorKind_unauthenticated, wirecapnp.ErrorKind_denied, wirecapnp.ErrorKind_unsupportedVersion,
		wirecapnp.ErrorKind_wrongCluster, wirecapnp.ErrorKind_invalid:
		return e
	default:
		return nil
	}
}

// reap closes old connections that have ended, which joins their goroutines.
func (l *Link) reap() {
	l.mu.Lock()
	var ended, kept []*frame.Client
	for _, old := range l.mu.olds {
		if old.Err() != nil {
			ended = append(ended, old)
		} else {
			kept = append(kept, old)
		}
	}
	l.mu.olds = kept
	l.mu.Unlock()
	for _, old := range ended {
		_ = old.Close() // it has ended
	}
}

// connect dials one address and says Hello.
func (l *Link) connect(ctx context.Context, addr string) (*frame.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	raw, err := l.cfg.Dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if l.cfg.TLS != nil {
		raw, err = handshake(ctx, raw, addr, l.cfg.TLS)
		if err != nil {
			return nil, err
		}
	}
	// The connection outlives the call that needs it first.
	conn := frame.NewClient(raw, frame.ClientConfig{Pool: l.cfg.Pool, BodyTimeout: l.cfg.AnswerTimeout}) //nolint:contextcheck // as said
	if _, err := conn.Hello(ctx, l.cfg.Hello); err != nil {
		_ = conn.Close() // it is of no use
		return nil, err
	}
	return conn, nil
}

func handshake(ctx context.Context, raw net.Conn, addr string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		host, _, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		config = config.Clone()
		config.ServerName = host
	}
	secure := tls.Client(raw, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return secure, nil
}

// Judge closes a connection that did not answer in time: it may be half open, and what waits on it would wait as long. A caller whose own
// context ended proves nothing.
func (l *Link) Judge(caller context.Context, conn *frame.Client, err error) {
	lost, ok := errors.AsType[*frame.ConnError](err)
	if !ok || !lost.Sent || !errors.Is(lost.Err, context.DeadlineExceeded) || caller.Err() != nil {
		return
	}
	l.cfg.Log.WarnContext(caller, "gateway does not answer, connection is given up", "addr", conn.RemoteAddr().String())
	_ = conn.Close() // all calls on it end
}

// Close ends all connections.
func (l *Link) Close() {
	l.mu.Lock()
	l.mu.closed = true
	conns := l.mu.olds
	if l.mu.current != nil {
		conns = append(conns, l.mu.current)
	}
	l.mu.olds, l.mu.current = nil, nil
	l.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close() // it joins its goroutines
	}
}
