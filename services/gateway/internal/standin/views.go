package standin

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Views is a route.Views that a test writes.
type Views struct {
	mu struct {
		sync.Mutex
		view    *topology.View
		changed chan struct{}
	}
}

// NewViews starts with an empty cluster.
func NewViews() *Views {
	v := &Views{}
	v.mu.view = &topology.View{
		Cluster:    topology.Versioned[topology.Cluster]{ModRevision: 1, Value: topology.Cluster{V: 1, ID: partition.UUIDOf(0xc1, 0xc2)}},
		Namespaces: map[string]topology.Versioned[topology.Namespace]{topology.DefaultNamespace: {ModRevision: 1}},
		Names:      map[topology.Name]partition.UUID{},
		Topics:     map[partition.UUID]topology.Versioned[topology.Topic]{},
		Partitions: map[partition.UUID][]topology.Versioned[topology.Assignment]{},
		Brokers:    map[partition.NodeID]topology.Broker{},
		Gateways:   map[string]topology.Live{},
		Tierers:    map[string]topology.Live{},
	}
	v.mu.changed = make(chan struct{})
	return v
}

// View implements route.Views.
func (v *Views) View() *topology.View {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.view
}

// WaitFor implements route.Views.
func (v *Views) WaitFor(ctx context.Context, ok func(*topology.View) bool) (*topology.View, error) {
	for {
		v.mu.Lock()
		view, changed := v.mu.view, v.mu.changed
		v.mu.Unlock()
		if ok(view) {
			return view, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // as topology.Follower.
		}
	}
}

// Change makes the next View: edit gets a copy whose maps it may write.
func (v *Views) Change(edit func(*topology.View)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	next := *v.mu.view
	next.Revision++
	next.Names, next.Topics, next.Partitions = maps.Clone(next.Names), maps.Clone(next.Topics), maps.Clone(next.Partitions)
	next.Brokers, next.Tierers, next.Namespaces = maps.Clone(next.Brokers), maps.Clone(next.Tierers), maps.Clone(next.Namespaces)
	edit(&next)
	v.mu.view = &next
	close(v.mu.changed)
	v.mu.changed = make(chan struct{})
}

// AddTopic adds a topic of the default namespace whose partitions nobody leads yet.
func (v *Views) AddTopic(name string, partitions int) topology.Topic {
	var topic topology.Topic
	v.Change(func(view *topology.View) {
		topic = topology.Topic{
			V: 1, ID: partition.UUIDOf(0x70, uint64(len(view.Topics)+1)), Namespace: topology.DefaultNamespace, Name: name,
			Partitions: uint32(partitions), ReplicationFactor: 1, MapVersion: 1, Durability: topology.DurabilityQuorum,
			BatchBytesMax: 1 << 20, Created: time.Unix(1_700_000_000, 0).UTC(),
		}
		view.Names[topic.FullName()] = topic.ID
		view.Topics[topic.ID] = topology.Versioned[topology.Topic]{Value: topic, ModRevision: 1}
		view.Partitions[topic.ID] = make([]topology.Versioned[topology.Assignment], partitions)
	})
	return topic
}

// Lead makes a broker the active leader of a partition, in the next epoch.
func (v *Views) Lead(id partition.ID, broker partition.NodeID) {
	v.Change(func(view *topology.View) {
		all := append([]topology.Versioned[topology.Assignment](nil), view.Partitions[id.Topic]...)
		epoch := all[id.Index].Value.Epoch + 1
		all[id.Index] = topology.Versioned[topology.Assignment]{ModRevision: view.Revision, Value: topology.Assignment{
			V: 1, Epoch: epoch, Status: topology.Active, Leader: topology.Leader{Broker: broker, Incarnation: 1},
			Members: []partition.Member{{Broker: broker}},
		}}
		view.Partitions[id.Topic] = all
	})
}

// AddBroker adds a live broker.
func (v *Views) AddBroker(id partition.NodeID, addr string) {
	v.Change(func(view *topology.View) {
		live := topology.Live{V: 1, Node: id, Incarnation: 1, Capnp: addr}
		view.Brokers[id] = topology.Broker{Live: &topology.Versioned[topology.Live]{Value: live, ModRevision: 1}}
	})
}

// AddTierer adds a live tierer.
func (v *Views) AddTierer(id, addr string) {
	v.Change(func(view *topology.View) {
		view.Tierers[id] = topology.Live{V: 1, ID: id, Incarnation: 1, Capnp: addr}
	})
}
