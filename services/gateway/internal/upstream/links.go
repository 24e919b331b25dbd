package upstream

import (
	"context"
	"sync"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/frame"
)

// links are the connections of one Caller, one per address.
type links struct {
	cluster *Cluster
	client  frame.ClientConfig
	hello   frame.HelloParams
	dials   sync.WaitGroup

	mu struct {
		sync.Mutex
		byAddr  map[string]*link
		clients map[*frame.Client]struct{} // all that may still run, retired ones included
		closed  bool
	}
}

// link is a connection that is being made, is there, or was not to be had.
type link struct {
	cancel context.CancelFunc
	ready  chan struct{}
	client *frame.Client // set before ready, as err
	err    error
}

func newLinks(cluster *Cluster, budget frame.Budget, hello frame.HelloParams) *links {
	l := &links{cluster: cluster, client: cluster.client, hello: hello}
	l.client.Budget = budget
	l.mu.byAddr = map[string]*link{}
	l.mu.clients = map[*frame.Client]struct{}{}
	return l
}

// get gives the connection to addr, and makes it if there is none. Callers that come meanwhile wait for the same one. An error is
// fault.Unavailable, or the context's: nothing was sent.
func (l *links) get(ctx context.Context, addr string) (*frame.Client, error) {
	k, err := l.link(ctx, addr)
	if err != nil {
		return nil, err
	}
	select {
	case <-k.ready:
		return k.client, k.err
	default:
	}
	select {
	case <-k.ready:
		return k.client, k.err
	case <-ctx.Done():
		return nil, fault.Wrap("connect to "+addr, context.Cause(ctx))
	}
}

func (l *links) link(ctx context.Context, addr string) (*link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, errClosing()
	}
	if k := l.mu.byAddr[addr]; k != nil && !k.spent() {
		return k, nil
	}
	for client := range l.mu.clients {
		select {
		case <-client.Done():
			delete(l.mu.clients, client)
		default:
		}
	}
	// The connection outlives the call that asked for it first.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.cluster.limits.DialTimeout)
	k := &link{cancel: cancel, ready: make(chan struct{})}
	l.mu.byAddr[addr] = k
	l.dials.Go(func() {
		defer cancel()
		client, err := l.dial(ctx, addr)
		l.made(addr, k, client, err)
	})
	return k, nil
}

// spent tells whether new calls need another connection.
func (k *link) spent() bool {
	select {
	case <-k.ready:
		return k.err != nil || k.client.Err() != nil || k.client.GoingAway()
	default:
		return false
	}
}

// retire has later calls make a new connection: this one has not answered, and may be one to a machine that is gone. What is in flight on it
// goes on.
func (l *links) retire(addr string, client *frame.Client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k := l.mu.byAddr[addr]
	if k == nil {
		return
	}
	select {
	case <-k.ready:
		if k.client == client {
			delete(l.mu.byAddr, addr)
		}
	default: // a later one is being made
	}
}

func (l *links) dial(ctx context.Context, addr string) (*frame.Client, error) {
	conn, err := l.cluster.network.Dial(ctx, addr)
	if err != nil {
		l.cluster.metrics.dials.WithLabelValues("failed").Inc()
		return nil, fault.Errorf(fault.Unavailable, "connect to %s: %w", addr, err)
	}
	client := frame.NewClient(conn, l.client) //nolint:contextcheck // the connection outlives the call that asked for it.
	hello := l.hello
	hello.ClusterID = l.cluster.clusterID()
	if _, err := client.Hello(ctx, hello); err != nil {
		_ = client.Close() // the failed Hello is what counts
		l.cluster.metrics.dials.WithLabelValues("refused").Inc()
		return nil, fault.Errorf(fault.Unavailable, "say hello to %s: %w", addr, err)
	}
	l.cluster.metrics.dials.WithLabelValues("made").Inc()
	return client, nil
}

// made hands a connection, or why there is none, to those who wait.
func (l *links) made(addr string, k *link, client *frame.Client, err error) {
	l.mu.Lock()
	closed := l.mu.closed
	if err == nil && !closed {
		l.mu.clients[client] = struct{}{}
	}
	if err != nil && l.mu.byAddr[addr] == k {
		delete(l.mu.byAddr, addr)
	}
	l.mu.Unlock()
	k.client, k.err = client, err
	close(k.ready)
	if err == nil && closed {
		_ = client.Close() // nobody uses it any more
	}
}

// close ends all connections and joins what makes them.
func (l *links) close() {
	l.mu.Lock()
	l.mu.closed = true
	for _, k := range l.mu.byAddr {
		k.cancel()
	}
	clients := make([]*frame.Client, 0, len(l.mu.clients))
	for client := range l.mu.clients {
		clients = append(clients, client)
	}
	l.mu.Unlock()
	l.dials.Wait()
	for _, client := range clients {
		_ = client.Close() // in-flight calls get their ConnError
	}
}
