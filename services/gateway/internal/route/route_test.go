package route

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

var topicID = partition.UUIDOf(1, 2)

func view() *topology.View {
	live := func(incarnation partition.Incarnation, addr string) *topology.Versioned[topology.Live] {
		return &topology.Versioned[topology.Live]{Value: topology.Live{Incarnation: incarnation, Capnp: addr}, ModRevision: 1}
	}
	assigned := func(leader partition.NodeID, incarnation partition.Incarnation, status topology.Status) topology.Versioned[topology.Assignment] {
		return topology.Versioned[topology.Assignment]{ModRevision: 1, Value: topology.Assignment{
			Epoch: 7, Status: status, Leader: topology.Leader{Broker: leader, Incarnation: incarnation},
		}}
	}
	name := topology.Name{Namespace: topology.DefaultNamespace, Topic: "orders"}
	v := &topology.View{
		Names: map[topology.Name]partition.UUID{name: topicID},
		Topics: map[partition.UUID]topology.Versioned[topology.Topic]{topicID: {
			ModRevision: 1, Value: topology.Topic{ID: topicID, Namespace: name.Namespace, Name: name.Topic, Partitions: 6},
		}},
		Partitions: map[partition.UUID][]topology.Versioned[topology.Assignment]{topicID: {
			assigned(1, 3, topology.Active),   // 0: served
			assigned(1, 3, topology.Electing), // 1: nominated only
			assigned(1, 2, topology.Active),   // 2: led by an earlier life of broker 1
			assigned(2, 1, topology.Active),   // 3: its broker is gone
			{},                                // 4: not assigned yet; 5 is beyond the list
		}},
		Brokers: map[partition.NodeID]topology.Broker{1: {Live: live(3, "b1:6164")}, 2: {}},
		Tierers: map[string]topology.Live{},
	}
	for i := range 5 {
		id := fmt.Sprintf("t%d", i)
		v.Tierers[id] = topology.Live{ID: id, Capnp: id + ":6364"}
	}
	return v
}

func TestLeaderIsNamedOnlyWhileItServes(t *testing.T) {
	table := Of(view())
	for index, want := range map[partition.Index]fault.Kind{
		1: fault.Unavailable, 2: fault.Unavailable, 3: fault.Unavailable, 4: fault.Unavailable, 5: fault.Unavailable, 6: fault.NotFound,
	} {
		if leader, err := table.Leader(partition.ID{Topic: topicID, Index: index}); !fault.Is(err, want) {
			t.Errorf("partition %d: %+v, %v, want %s", index, leader, err, want)
		}
	}
	leader, err := table.Leader(partition.ID{Topic: topicID})
	if want := (Leader{Node: 1, Incarnation: 3, Epoch: 7, Addr: "b1:6164"}); err != nil || leader != want {
		t.Errorf("partition 0: %+v, %v, want %+v", leader, err, want)
	}
	if _, err := table.Leader(partition.ID{Topic: partition.UUIDOf(9, 9)}); !fault.Is(err, fault.NotFound) {
		t.Errorf("unknown topic: %v", err)
	}
}

func TestDeletedTopicIsNotFound(t *testing.T) {
	v := view()
	topic := v.Topics[topicID]
	topic.Value.Deleted = &time.Time{}
	v.Topics[topicID] = topic
	table := Of(v)
	if _, err := table.Topic(topic.Value.FullName()); !fault.Is(err, fault.NotFound) {
		t.Errorf("by name: %v", err)
	}
	if _, err := table.Leader(partition.ID{Topic: topicID}); !fault.Is(err, fault.NotFound) {
		t.Errorf("leader: %v", err)
	}
}

// When a tierer goes, the others' partitions stay where they are.
func TestTierersMoveOnlyWhatTheLostOneHad(t *testing.T) {
	all, without := view(), view()
	delete(without.Tierers, "t2")
	spread := map[string]int{}
	for i := range 1000 {
		id := partition.ID{Topic: topicID, Index: partition.Index(i)}
		before, after := Of(all).Tierers(id), Of(without).Tierers(id)
		spread[before[0]]++
		if before[0] != "t2:6364" && before[0] != after[0] {
			t.Fatalf("partition %d moved from %s to %s", i, before[0], after[0])
		}
		if want := slices.DeleteFunc(slices.Clone(before), func(a string) bool { return a == "t2:6364" }); !slices.Equal(after, want) {
			t.Fatalf("partition %d: order %v, want %v", i, after, want)
		}
	}
	for addr, n := range spread {
		if n < 100 {
			t.Errorf("%s is first for %d of 1000 partitions", addr, n)
		}
	}
	if len(spread) != 5 {
		t.Errorf("%d of 5 tierers are used", len(spread))
	}
}
