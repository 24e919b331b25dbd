package placement_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/placement"
)

func brokers(zones ...string) []members.Broker {
	all := make([]members.Broker, len(zones))
	for i, zone := range zones {
		all[i] = members.Broker{ID: partition.NodeID(i + 1), Incarnation: 1, Zone: zone, Live: true, Sound: true}
	}
	return all
}

func place(t *testing.T, all []members.Broker, partitions, replicas int, seed uint64) [][]partition.NodeID {
	t.Helper()
	placed, err := placement.Place(all, partitions, replicas, seed)
	if err != nil {
		t.Fatal(err)
	}
	return placed
}

func TestSpreadsReplicasAndLeaders(t *testing.T) {
	for _, replicas := range []int{1, 3, 5} {
		all := brokers("", "", "", "", "", "", "")
		leads, holds := map[partition.NodeID]int{}, map[partition.NodeID]int{}
		for _, set := range place(t, all, 700, replicas, 42) {
			leads[set[0]]++
			for _, id := range set {
				holds[id]++
			}
			if len(slices.Compact(slices.Sorted(slices.Values(set)))) != replicas {
				t.Fatalf("not %d brokers: %v", replicas, set)
			}
		}
		for _, b := range all {
			if holds[b.ID] < 100*replicas-1 || holds[b.ID] > 100*replicas+1 || leads[b.ID] < 98 || leads[b.ID] > 102 {
				t.Errorf("%d replicas: broker %d holds %d and leads %d of 700 over 7", replicas, b.ID, holds[b.ID], leads[b.ID])
			}
		}
	}
}

func TestZonesComeBeforeLoad(t *testing.T) {
	all := brokers("x", "x", "x", "x", "y", "z")
	all[4].Replicas, all[5].Replicas = 1000, 1000
	for _, set := range place(t, all, 50, 3, 7) {
		zones := map[string]bool{}
		for _, id := range set {
			zones[all[id-1].Zone] = true
		}
		if len(zones) != 3 {
			t.Fatalf("%v lies in %d zones", set, len(zones))
		}
	}
}

func TestLoadIsLevelled(t *testing.T) {
	all := brokers("", "", "")
	all[0].Replicas, all[0].Leads = 10, 10
	for _, set := range place(t, all, 10, 1, 1) {
		if set[0] == 1 {
			t.Error("the loaded broker got more")
		}
	}
}

func TestSameInputSamePlaces(t *testing.T) {
	all := brokers("x", "y", "z", "x", "y")
	first := place(t, all, 100, 3, 99)
	if diff := cmp.Diff(first, place(t, brokers("x", "y", "z", "x", "y"), 100, 3, 99)); diff != "" {
		t.Error(diff)
	}
	if fmt.Sprint(first) == fmt.Sprint(place(t, all, 100, 3, 100)) {
		t.Error("the seed does nothing")
	}
}

func TestOnlyFitBrokers(t *testing.T) {
	all := brokers("", "", "", "")
	all[0].Live, all[1].Sound = false, false
	for _, set := range place(t, all, 20, 1, 3) {
		if set[0] < 3 {
			t.Errorf("placed on broker %d", set[0])
		}
	}
	if _, err := placement.Place(all, 1, 3, 3); !fault.Is(err, fault.Unavailable) {
		t.Errorf("three on two: %v", err)
	}
}
