package members_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

func broker(incarnation, live partition.Incarnation, disks ...string) topology.Broker {
	b := topology.Broker{Ident: topology.Versioned[topology.BrokerIdent]{Value: topology.BrokerIdent{Incarnation: incarnation, Zone: "z"}}}
	for _, state := range disks {
		b.Ident.Value.Disks = append(b.Ident.Value.Disks, topology.Disk{State: state})
	}
	if live != 0 {
		b.Live = &topology.Versioned[topology.Live]{Value: topology.Live{Incarnation: live, Capnp: "host:1", Software: "v1"}}
	}
	return b
}

func TestOf(t *testing.T) {
	kept, gone := partition.UUIDOf(0, 1), partition.UUIDOf(0, 2)
	deleted := time.Now()
	assignment := topology.Versioned[topology.Assignment]{Value: topology.Assignment{
		Leader: topology.Leader{Broker: 1}, Members: []partition.Member{{Broker: 1}, {Broker: 2}, {Broker: 9}},
	}}
	v := &topology.View{
		Brokers: map[partition.NodeID]topology.Broker{
			1: broker(3, 3, "poisoned", "ok"), 2: broker(3, 2, "poisoned"), 4: broker(1, 0),
		},
		Topics: map[partition.UUID]topology.Versioned[topology.Topic]{
			kept: {}, gone: {Value: topology.Topic{Deleted: &deleted}},
		},
		Partitions: map[partition.UUID][]topology.Versioned[topology.Assignment]{
			kept: {assignment, assignment}, gone: {assignment}, partition.UUIDOf(0, 3): {assignment},
		},
	}
	want := []members.Broker{
		{ID: 1, Incarnation: 3, Zone: "z", Address: "host:1", Software: "v1", Live: true, Sound: true, Leads: 2, Replicas: 2},
		{ID: 2, Incarnation: 3, Zone: "z", Replicas: 2}, // its live key is of an earlier life
		{ID: 4, Incarnation: 1, Zone: "z", Sound: true},
	}
	if diff := cmp.Diff(want, members.Of(v)); diff != "" {
		t.Error(diff)
	}
	if live := members.Live(members.Of(v)); len(live) != 1 || live[0].ID != 1 {
		t.Errorf("live: %+v", live)
	}
}
