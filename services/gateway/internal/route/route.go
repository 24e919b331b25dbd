package route

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Views is who follows the cluster's metadata: topology.Follower.
type Views interface {
	View() *topology.View
	WaitFor(ctx context.Context, ok func(*topology.View) bool) (*topology.View, error)
}

// Router gives the newest Table.
type Router struct {
	views Views
	clock clock.Clock
}

// NewRouter reads from views.
func NewRouter(views Views, clk clock.Clock) Router { return Router{views, clk} }

// Table is the newest table.
func (r Router) Table() Table { return Table{r.views.View()} }

// WaitFor gives the first table from now on that satisfies ok, or ctx's error.
func (r Router) WaitFor(ctx context.Context, ok func(Table) bool) (Table, error) {
	view, err := r.views.WaitFor(ctx, func(v *topology.View) bool { return ok(Table{v}) })
	if err != nil {
		return Table{}, err
	}
	return Table{view}, nil
}

// Table says where things are as of one View.
type Table struct{ view *topology.View }

// Of reads a view.
func Of(view *topology.View) Table { return Table{view} }

// View is what the table reads.
func (t Table) View() *topology.View { return t.view }

// ClusterID is zero before the cluster is bootstrapped.
func (t Table) ClusterID() partition.UUID { return t.view.Cluster.Value.ID }

// Topic finds a topic by name. The error is fault.NotFound.
func (t Table) Topic(name topology.Name) (topology.Topic, error) {
	topic, ok := t.view.Topic(name)
	if !ok || topic.Value.Deleted != nil {
		return topology.Topic{}, fault.Errorf(fault.NotFound, "topic %s does not exist", name)
	}
	return topic.Value, nil
}

// TopicByID finds a topic by its identity. The error is fault.NotFound.
func (t Table) TopicByID(id partition.UUID) (topology.Topic, error) {
	topic, ok := t.view.Topics[id]
	if !ok || topic.Value.Deleted != nil {
		return topology.Topic{}, fault.Errorf(fault.NotFound, "topic %s does not exist", id)
	}
	return topic.Value, nil
}

// Leader is where a partition is served.
type Leader struct {
	Node        partition.NodeID
	Incarnation partition.Incarnation
	Epoch       partition.Epoch
	Addr        string
}

// Leader finds who serves a partition. Errors: fault.NotFound (no such topic or partition), fault.Unavailable (nobody serves it now).
func (t Table) Leader(id partition.ID) (Leader, error) {
	topic, err := t.TopicByID(id.Topic)
	if err != nil {
		return Leader{}, err
	}
	if uint32(id.Index) >= topic.Partitions {
		return Leader{}, fault.Errorf(fault.NotFound, "topic %s has partitions 0 to %d, not %d", topic.FullName(), topic.Partitions-1, id.Index)
	}
	assignment, ok := t.view.Partition(id)
	if !ok || assignment.Value.Status != topology.Active {
		return Leader{}, fault.Errorf(fault.Unavailable, "partition %s/%d has no active leader", topic.FullName(), id.Index)
	}
	leader := assignment.Value.Leader
	broker := t.view.Brokers[leader.Broker]
	if broker.Live == nil || broker.Live.Value.Incarnation != leader.Incarnation {
		return Leader{}, fault.Errorf(fault.Unavailable, "leader of partition %s/%d, broker %d, is not there", topic.FullName(), id.Index, leader.Broker)
	}
	return Leader{
		Node: leader.Broker, Incarnation: leader.Incarnation, Epoch: assignment.Value.Epoch, Addr: broker.Live.Value.Capnp,
	}, nil
}

// Nominee finds who was asked to lead a partition that nobody serves; false if somebody does, or the nominee is not there. It may say why it does not
// serve, and may have records to read.
func (t Table) Nominee(id partition.ID) (Leader, bool) {
	assignment, ok := t.view.Partition(id)
	if !ok || assignment.Value.Status != topology.Electing {
		return Leader{}, false
	}
	leader := assignment.Value.Leader
	broker := t.view.Brokers[leader.Broker]
	if broker.Live == nil || broker.Live.Value.Incarnation != leader.Incarnation {
		return Leader{}, false
	}
	return Leader{
		Node: leader.Broker, Incarnation: leader.Incarnation, Epoch: assignment.Value.Epoch, Addr: broker.Live.Value.Capnp,
	}, true
}

// Members gives the brokers that have the partition and are there, but for one: who may serve reads while nobody leads.
func (t Table) Members(id partition.ID, but partition.NodeID) []Leader {
	assignment, ok := t.view.Partition(id)
	if !ok {
		return nil
	}
	var out []Leader
	for _, m := range assignment.Value.Members {
		if broker := t.view.Brokers[m.Broker]; m.Broker != but && broker.Live != nil {
			out = append(out, Leader{Node: m.Broker, Incarnation: broker.Live.Value.Incarnation, Addr: broker.Live.Value.Capnp})
		}
	}
	return out
}

// AllActive tells whether every partition of a topic has a leader that serves.
func (t Table) AllActive(topic topology.Topic) bool {
	for i := range topic.Partitions {
		if _, err := t.Leader(partition.ID{Topic: topic.ID, Index: partition.Index(i)}); err != nil {
			return false
		}
	}
	return true
}

// Coordinator is the address of the active coordinator; false if none is known.
func (t Table) Coordinator() (string, bool) {
	if t.view.Coordinator == nil || t.view.Coordinator.Value.GRPC == "" {
		return "", false
	}
	return t.view.Coordinator.Value.GRPC, true
}

// Tierers gives the addresses of all live tierers, the one to ask first about a partition first.
func (t Table) Tierers(id partition.ID) []string {
	key := make([]byte, 0, 20)
	key = append(key, id.Topic[:]...)
	key = binary.BigEndian.AppendUint32(key, uint32(id.Index))
	nodes := make([]node, 0, len(t.view.Tierers))
	for _, live := range t.view.Tierers {
		nodes = append(nodes, node{id: live.ID, addr: live.Capnp})
	}
	return rendezvous(key, nodes)
}

// Brokers gives the addresses of all live brokers in an order that the key decides.
func (t Table) Brokers(key string) []string {
	nodes := make([]node, 0, len(t.view.Brokers))
	for id, broker := range t.view.Brokers {
		if broker.Live != nil {
			nodes = append(nodes, node{id: strconv.FormatUint(uint64(id), 10), addr: broker.Live.Value.Capnp})
		}
	}
	return rendezvous([]byte(key), nodes)
}

type node struct {
	id, addr string
	weight   uint64
}

// rendezvous orders nodes by the hash of key and id, highest first: a node that leaves moves only what it had.
func rendezvous(key []byte, nodes []node) []string {
	var digest xxhash.Digest
	for i := range nodes {
		digest.Reset()
		_, _ = digest.Write(key) // never fails
		_, _ = digest.WriteString("/" + nodes[i].id)
		nodes[i].weight = digest.Sum64()
	}
	slices.SortFunc(nodes, func(a, b node) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.id, b.id))
	})
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.addr
	}
	return addrs
}
