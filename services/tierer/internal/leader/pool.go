package leader

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

const (
	connectTimeout = 3 * time.Second
	// callTimeout bounds a call that does not say how long it may wait.
	callTimeout = 10 * time.Second
)

// Views gives the newest View: topology.Follower.
type Views interface {
	View() *topology.View
}

// Config of a Pool.
type Config struct {
	Network transport.Network
	Views   Views
	Client  frame.ClientConfig
	// Name and Software are told to the brokers.
	Name, Software, Zone string
	Log                  *slog.Logger
}

// Pool has a connection to each broker that it was asked to call.
type Pool struct {
	cfg Config
	mu  struct {
		sync.Mutex

		links  map[partition.NodeID]*link
		closed bool
	}
}

// link is the connection to one broker in one incarnation; its mutex is held while it is made, so that it is made once.
type link struct {
	incarnation partition.Incarnation
	mu          struct {
		sync.Mutex

		client *frame.Client
		closed bool
	}
}

var errClosed = errors.New("tierer is stopping")

// New makes a pool without connections. The caller closes it.
func New(cfg Config) *Pool {
	p := &Pool{cfg: cfg}
	p.mu.links = map[partition.NodeID]*link{}
	return p
}

// Close ends all connections.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.mu.closed = true
	links := p.mu.links
	p.mu.links = map[partition.NodeID]*link{}
	p.mu.Unlock()
	var errs []error
	for _, l := range links {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// find names the leader of a partition.
func (p *Pool) find(id partition.ID) (partition.NodeID, error) {
	assignment, ok := p.cfg.Views.View().Partition(id)
	if !ok || assignment.Value.Status != topology.Active {
		return 0, fault.Errorf(fault.Unavailable, "find leader of %s: none is active", id)
	}
	return assignment.Value.Leader.Broker, nil
}

// callLeader calls a partition's leader.
func (p *Pool) callLeader(ctx context.Context, id partition.ID, fill func(wirecapnp.Request) error) (*frame.Reply, error) {
	node, err := p.find(id)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return p.call(ctx, node, fill)
}

// call calls a broker; once more where the connection was lost.
func (p *Pool) call(ctx context.Context, node partition.NodeID, fill func(wirecapnp.Request) error) (*frame.Reply, error) {
	var err error
	for range 2 {
		var client *frame.Client
		if client, err = p.connect(ctx, node); err != nil {
			break
		}
		var reply *frame.Reply
		if reply, err = client.Call(ctx, fill); err == nil {
			return reply, nil
		}
		lost, ok := errors.AsType[*frame.ConnError](err)
		if !ok || ctx.Err() != nil {
			break
		}
		p.cfg.Log.DebugContext(ctx, "connection to broker lost", "node", node, "err", lost)
	}
	return nil, fault.Wrap("ask broker", faultwire.FromCall(err))
}

// connect gives the connection to a broker, made anew where the old one is gone.
func (p *Pool) connect(ctx context.Context, node partition.NodeID) (*frame.Client, error) {
	broker := p.cfg.Views.View().Brokers[node]
	if broker.Live == nil {
		return nil, fault.Errorf(fault.Unavailable, "connect to broker %d: it is not there", node)
	}
	l, err := p.link(node, broker.Live.Value.Incarnation)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return nil, fault.Errorf(fault.Unavailable, "connect to broker %d: %w", node, errClosed)
	}
	if l.mu.client != nil {
		if l.mu.client.Err() == nil && !l.mu.client.GoingAway() {
			return l.mu.client, nil
		}
		_ = l.mu.client.Close() // it has failed already
		l.mu.client = nil
	}
	if l.mu.client, err = p.dial(ctx, broker.Live.Value.Capnp); err != nil {
		return nil, fault.Wrap("connect to broker", err)
	}
	return l.mu.client, nil
}

func (p *Pool) link(node partition.NodeID, incarnation partition.Incarnation) (*link, error) {
	p.mu.Lock()
	old := p.mu.links[node]
	if p.mu.closed {
		p.mu.Unlock()
		return nil, fault.Errorf(fault.Unavailable, "connect to broker %d: %w", node, errClosed)
	}
	if old != nil && old.incarnation == incarnation {
		p.mu.Unlock()
		return old, nil
	}
	l := &link{incarnation: incarnation}
	p.mu.links[node] = l
	p.mu.Unlock()
	if old != nil {
		_ = old.close() // of an earlier life
	}
	return l, nil
}

func (l *link) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
	if l.mu.client == nil {
		return nil
	}
	return l.mu.client.Close() //nolint:wrapcheck // frame says what it closes.
}

func (p *Pool) dial(ctx context.Context, addr string) (*frame.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := p.cfg.Network.Dial(ctx, addr)
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "dial %s: %w", addr, err)
	}
	client := frame.NewClient(conn, p.cfg.Client) //nolint:contextcheck // it outlives the call.
	hello := frame.HelloParams{
		Role: wirecapnp.Role_tierer, ClientID: p.cfg.Name, Software: p.cfg.Software, Zone: p.cfg.Zone,
		ClusterID: p.cfg.Views.View().Cluster.Value.ID.String(),
	}
	if _, err := client.Hello(ctx, hello); err != nil {
		return nil, errors.Join(fault.Wrap("greet "+addr, faultwire.FromCall(err)), client.Close())
	}
	return client, nil
}
