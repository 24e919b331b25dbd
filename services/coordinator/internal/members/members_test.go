package members_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
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

func disks(states ...string) []reports.Disk {
	var all []reports.Disk
	for _, state := range states {
		all = append(all, reports.Disk{State: state})
	}
	return all
}

// What is said counts if the process that said it lives, and if it is about one that does; orders count in any case.
func TestHears(t *testing.T) {
	v := &topology.View{Brokers: map[partition.NodeID]topology.Broker{1: broker(3, 3), 2: broker(2, 2), 3: broker(5, 5), 4: broker(2, 1)}}
	ordered := v.Brokers[3]
	ordered.Orders.Value = topology.BrokerOrders{Decommission: &topology.Decommission{}}
	v.Brokers[3] = ordered
	by := func(b partition.NodeID, i partition.Incarnation) reports.Process {
		return reports.Process{Broker: b, Incarnation: i}
	}
	told := reports.Reports{
		1: {From: by(1, 3), Suspects: []reports.Process{by(2, 2), by(3, 4), by(4, 1)}, Disks: []reports.Disk{{State: reports.DiskFull}}},
		2: {From: by(2, 1), Suspects: []reports.Process{by(1, 3)}, Draining: true}, // an earlier life of it
		3: {From: by(3, 5), Suspects: []reports.Process{by(2, 2), by(3, 5)}},
		4: {From: by(4, 1), Suspects: []reports.Process{by(2, 2)}}, // it does not live
	}
	var got []string
	for _, b := range members.Of(v, told) {
		got = append(got, fmt.Sprintf("%d takes=%v draining=%v leaving=%v suspected=%v", b.ID, b.Takes(), b.Draining, b.Leaving, b.SuspectedBy))
	}
	want := []string{
		"1 takes=false draining=true leaving=false suspected=[]", "2 takes=true draining=false leaving=false suspected=[1 3]",
		"3 takes=false draining=false leaving=true suspected=[]", "4 takes=false draining=false leaving=false suspected=[]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
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
		{ID: 1, Incarnation: 3, Zone: "z", Address: "host:1", Software: "v1", Live: true, Sound: true, Leads: 2, Replicas: 2, Disks: disks("poisoned", "ok")},
		{ID: 2, Incarnation: 3, Zone: "z", Replicas: 2, Disks: disks("poisoned")}, // its live key is of an earlier life
		{ID: 4, Incarnation: 1, Zone: "z", Sound: true},
	}
	if diff := cmp.Diff(want, members.Of(v, nil)); diff != "" {
		t.Error(diff)
	}
	if live := members.Live(members.Of(v, nil)); len(live) != 1 || live[0].ID != 1 {
		t.Errorf("live: %+v", live)
	}
}
