package peer

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var cluster = partition.UUIDOf(7, 8)

// views is a View that a test changes.
type views struct {
	mu struct {
		sync.Mutex
		view    *topology.View
		changed chan struct{}
	}
}

func newViews() *views {
	v := &views{}
	v.mu.changed = make(chan struct{})
	v.mu.view = &topology.View{
		Brokers:    map[partition.NodeID]topology.Broker{},
		Partitions: map[partition.UUID][]topology.Versioned[topology.Assignment]{},
	}
	return v
}

func (v *views) View() *topology.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.view
}

func (v *views) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.changed
}

// change shows another View.
func (v *views) change(with func(next *topology.View)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := *v.mu.view
	next.Brokers = map[partition.NodeID]topology.Broker{}
	for id, b := range v.mu.view.Brokers {
		next.Brokers[id] = b
	}
	with(&next)
	v.mu.view = &next
	close(v.mu.changed)
	v.mu.changed = make(chan struct{})
}

// live says where a broker's life is; no address = its registration is gone.
func (v *views) live(id int, addr string, incarnation partition.Incarnation) {
	v.change(func(next *topology.View) {
		b := topology.Broker{}
		if addr != "" {
			b.Live = &topology.Versioned[topology.Live]{Value: topology.Live{Capnp: addr, Incarnation: incarnation}}
		}
		next.Brokers[partition.NodeID(id)] = b
	})
}

// share gives the brokers a partition in common.
func (v *views) share(ids ...int) {
	v.change(func(next *topology.View) {
		var a topology.Assignment
		for _, id := range ids {
			a.Members = append(a.Members, member(id))
		}
		next.Partitions = map[partition.UUID][]topology.Versioned[topology.Assignment]{
			partitionID(0).Topic: {{Value: a, ModRevision: 1}},
		}
	})
}

// inbox is a Handler that keeps what comes.
type inbox struct {
	came chan Delivery
}

func (i *inbox) Deliver(d Delivery) { i.came <- d }

// broker is one side of a world: its peers, and a data port that takes frames.
type broker struct {
	id       int
	addr     string
	peers    *Peers
	inbox    *inbox
	registry *prometheus.Registry
	stop     func() // ends its port
}

// world is brokers on a network in memory, each a host of the name "bN".
type world struct {
	t     *testing.T
	net   *memnet.Network
	views *views
}

func newWorld(t *testing.T) *world {
	return &world{t: t, net: memnet.New(), views: newViews()}
}

func host(id int) string { return "b" + strconv.Itoa(id) }

// broker starts one in its first life.
func (w *world) broker(id int) *broker {
	b := &broker{id: id, inbox: &inbox{came: make(chan Delivery, 10_000)}, registry: prometheus.NewRegistry()}
	var err error
	b.peers, err = New(Config{
		Self: partition.NodeID(id), Cluster: cluster, Software: "sq-broker/test", Topology: w.views, Network: w.net.At(host(id)),
		Clock: clock.Real(), Rand: rand.Reader, Log: slog.New(slog.DiscardHandler), Metrics: b.registry,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.peers.Run(ctx) }()
	w.serve(b, cluster, partition.NodeID(id))
	w.t.Cleanup(func() {
		b.stop()
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
	w.views.live(id, b.addr, 1)
	return b
}

// serve opens the broker's port, at its address if it had one; it says that it is node of a cluster.
func (w *world) serve(b *broker, cluster partition.UUID, node partition.NodeID) {
	receiver, err := NewReceiver(partition.NodeID(b.id), b.inbox, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	if err != nil {
		w.t.Fatal(err)
	}
	server := frame.NewServer(frame.ServerConfig{
		Accept: func(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
			if hello.ClusterID != cluster.String() || hello.Role != wirecapnp.Role_broker {
				return frame.ServerInfo{}, faultwire.ToRemote(fault.Errorf(fault.WrongCluster, "not of this cluster"))
			}
			return frame.ServerInfo{NodeID: uint64(node)}, nil
		},
		Handler: frame.HandlerFunc(func(_ context.Context, req *frame.Request) {
			from, _ := strconv.Atoi(req.Session.Hello.ClientID)
			in, err := req.Message.Peer()
			if err != nil {
				w.t.Error(err)
			}
			receiver.Receive(partition.NodeID(from), in, req.TakeBody(), func(err error) {
				if err != nil {
					_ = req.Fail(faultwire.ToRemote(err))
					return
				}
				_ = req.Reply(func(response wirecapnp.Response) error {
					response.SetPeer()
					return nil
				}, nil)
			})
		}),
	})
	at := b.addr
	if at == "" {
		at = ":6164"
	}
	listener, err := w.net.At(host(b.id)).Listen(w.t.Context(), at)
	if err != nil {
		w.t.Fatal(err)
	}
	b.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
	})
}

// counter sums a metric.
func (b *broker) counter(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := b.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, metric := range family.GetMetric() {
			matches := len(labels) == 0
			for _, label := range metric.GetLabel() {
				matches = matches || label.GetName()+"="+label.GetValue() == labels[0]
			}
			if matches {
				total += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	return total
}

// suspects gives the brokers suspected, as text.
func (b *broker) suspects() string { return fmt.Sprint(b.peers.Suspects()) }
