package sq

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// link is a connection to some gateway, made anew when it is lost, at the next address.
type link struct {
	client *Client
	addrs  []string
	pool   *frame.Pool
	mu     struct {
		sync.Mutex
		current *frame.Client
		olds    []*frame.Client // going away: calls in flight are still answered
		dialing chan struct{}   // closed when the dial that goes on has ended; nil = none
		next    int             // address
		closed  bool
	}
}

func newLink(c *Client, addrs []string, pool *frame.Pool) *link {
	l := &link{client: c, addrs: addrs, pool: pool}
	l.mu.next = rand.IntN(len(addrs)) // clients spread over the gateways
	return l
}

// get gives a connection that takes calls, dialling if need be: every address once. One dial goes on at a time; who else asks waits for it.
func (l *link) get(ctx context.Context) (*frame.Client, error) {
	for {
		l.mu.Lock()
		if l.mu.closed {
			l.mu.Unlock()
			return nil, ErrClosed
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
func (l *link) usable() *frame.Client {
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
func (l *link) dial(ctx context.Context) (*frame.Client, error) {
	var conn *frame.Client
	var failed error
	for range l.addrs {
		l.mu.Lock()
		addr := l.addrs[l.mu.next%len(l.addrs)]
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
			failed = &Error{Kind: remote.Kind, Err: fmt.Errorf("connect to %s: %w", addr, remote.Err)}
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
		conn, failed = nil, ErrClosed
	}
	if conn != nil {
		l.mu.current = conn
	}
	closed := l.mu.closed
	l.mu.Unlock()
	if closed {
		l.close()
	}
	if failed != nil && ctx.Err() == nil && refusal(failed) == nil && !errors.Is(failed, ErrClosed) {
		failed = &Error{Kind: KindUnavailable, Err: plain(failed)}
	}
	return conn, failed
}

// refusal finds what a gateway has answered for good: another gateway would say the same.
func refusal(err error) *Error {
	if _, lost := errors.AsType[*frame.ConnError](err); lost {
		return nil
	}
	e := errorOf("", err)
	switch e.Kind {
	case KindUnauthenticated, KindDenied, KindUnsupportedVersion, KindWrongCluster, KindInvalid:
		return e
	default:
		return nil
	}
}

// reap closes old connections that have ended, which joins their goroutines.
func (l *link) reap() {
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
func (l *link) connect(ctx context.Context, addr string) (*frame.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	cfg := &l.client.cfg
	raw, err := cfg.dial(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if cfg.tls != nil {
		raw, err = handshake(ctx, raw, addr, cfg.tls)
		if err != nil {
			return nil, err
		}
	}
	conn := frame.NewClient(raw, frame.ClientConfig{Pool: l.pool, BodyTimeout: requestTimeout})
	software := softwareName
	if cfg.software != "" {
		software += " " + cfg.software
	}
	_, err = conn.Hello(ctx, frame.HelloParams{
		Role: wirecapnp.Role_client, ClientID: cfg.clientID, Software: software,
		Token: cfg.token, Zone: cfg.zone, ClusterID: cfg.clusterID,
	})
	if err != nil {
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

// judge closes a connection that did not answer in time: it may be half open, and what waits on it would wait as long. A caller whose own
// context ended proves nothing.
func (l *link) judge(caller context.Context, conn *frame.Client, err error) {
	lost, ok := errors.AsType[*frame.ConnError](err)
	if !ok || !lost.Sent || !errors.Is(lost.Err, context.DeadlineExceeded) || caller.Err() != nil {
		return
	}
	l.client.log.WarnContext(caller, "gateway does not answer, connection is given up", "addr", conn.RemoteAddr().String())
	_ = conn.Close() // all calls on it end
}

// close ends all connections.
func (l *link) close() {
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
