package standin

import (
	"context"
	"net"
	"sync"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Hook sees a request first. True: it has taken the request over and will answer it, or never.
type Hook func(ctx context.Context, req *frame.Request) bool

// Node is a broker or a tierer.
type Node struct {
	Addr string

	tierer bool
	server *frame.Server
	conns  *conns
	work   sync.WaitGroup
	mu     struct {
		sync.Mutex
		logs   map[partition.ID]*Log
		hook   Hook
		hellos []frame.HelloInfo
		now    int64
		pid    uint64
		killed bool
	}
}

// conns is a listener that can break what it accepted.
type conns struct {
	net.Listener
	mu struct {
		sync.Mutex
		open []net.Conn
	}
}

func (c *conns) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.mu.Lock()
		c.mu.open = append(c.mu.open, conn)
		c.mu.Unlock()
	}
	return conn, err //nolint:wrapcheck // it is a listener.
}

// NewBroker starts a broker on addr; it ends with the test.
func NewBroker(t testing.TB, network transport.Network, addr string) *Node {
	return start(t, network, addr, false)
}

// NewTierer starts a tierer on addr; it ends with the test.
func NewTierer(t testing.TB, network transport.Network, addr string) *Node {
	return start(t, network, addr, true)
}

func start(t testing.TB, network transport.Network, addr string, tierer bool) *Node {
	t.Helper()
	listener, err := network.Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	n := &Node{Addr: listener.Addr().String(), tierer: tierer, conns: &conns{Listener: listener}}
	n.mu.logs = map[partition.ID]*Log{}
	n.mu.now = 1_000_000
	n.server = frame.NewServer(frame.ServerConfig{Handler: n, Accept: n.accept})
	ctx, cancel := context.WithCancel(context.Background())
	n.work.Go(func() {
		if err := n.server.Serve(ctx, n.conns); err != nil && !n.isKilled() {
			t.Errorf("serve stand-in: %v", err)
		}
	})
	t.Cleanup(func() {
		cancel()
		n.work.Wait()
	})
	return n
}

func (n *Node) isKilled() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.killed
}

func (n *Node) accept(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.hellos = append(n.mu.hellos, hello)
	return frame.ServerInfo{ClusterID: hello.ClusterID}, nil
}

// Hellos are those of all connections so far.
func (n *Node) Hellos() []frame.HelloInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]frame.HelloInfo(nil), n.mu.hellos...)
}

// SetHook installs a hook; nil takes it away.
func (n *Node) SetHook(hook Hook) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.hook = hook
}

// SetTime sets the append time of what comes, in microseconds since 1970.
func (n *Node) SetTime(micros int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.now = micros
}

// Serve gives the node a log to serve.
func (n *Node) Serve(id partition.ID, log *Log) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.logs[id] = log
}

// Kill closes the listener and every connection.
func (n *Node) Kill() {
	n.mu.Lock()
	n.mu.killed = true
	n.mu.Unlock()
	_ = n.conns.Close()
	n.BreakConns()
}

// BreakConns closes every connection, as a crash of the other side's machine would.
func (n *Node) BreakConns() {
	n.conns.mu.Lock()
	defer n.conns.mu.Unlock()
	for _, conn := range n.conns.mu.open {
		_ = conn.Close()
	}
	n.conns.mu.open = nil
}

// Handle implements frame.Handler.
func (n *Node) Handle(ctx context.Context, req *frame.Request) {
	n.mu.Lock()
	hook := n.mu.hook
	n.mu.Unlock()
	if hook != nil && hook(ctx, req) {
		return
	}
	switch req.Message.Which() {
	case wirecapnp.Request_Which_publish:
		n.publish(req)
	case wirecapnp.Request_Which_fetch:
		in, _ := req.Message.Fetch()
		if n.tierer || in.WaitMillis() == 0 {
			n.fetch(ctx, req)
			return
		}
		n.work.Go(func() { n.fetch(ctx, req) })
	case wirecapnp.Request_Which_listOffsets:
		n.listOffsets(req)
	case wirecapnp.Request_Which_initProducer:
		n.mu.Lock()
		n.mu.pid++
		pid := n.mu.pid
		n.mu.Unlock()
		_ = req.Reply(func(res wirecapnp.Response) error {
			out, err := res.NewInitProducer()
			out.SetProducerId(pid)
			return err
		}, nil)
	default:
		n.admin(req)
	}
}

func (n *Node) log(topic partition.UUID, index uint32) (*Log, *frame.RemoteError) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if log, ok := n.mu.logs[partition.ID{Topic: topic, Index: partition.Index(index)}]; ok {
		return log, nil
	}
	if n.tierer {
		return nil, frame.Errorf(wirecapnp.ErrorKind_notFound, "no manifest of this partition")
	}
	return nil, frame.Errorf(wirecapnp.ErrorKind_notLeader, "not the leader")
}
