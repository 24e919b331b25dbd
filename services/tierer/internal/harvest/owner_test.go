package harvest_test

import (
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/tierer/internal/harvest"
)

func viewOf(ids ...string) *topology.View {
	view := &topology.View{Tierers: map[string]topology.Live{}}
	for _, id := range ids {
		view.Tierers[id] = topology.Live{ID: id}
	}
	return view
}

func idOf(i int) partition.ID {
	return partition.ID{Topic: partition.UUIDOf(1, 2), Index: partition.Index(i)}
}

func TestOwnerMovesOnlyTheShareOfWhoGoes(t *testing.T) {
	all, without := viewOf("t1", "t2", "t3"), viewOf("t1", "t3")
	shares := map[string]int{}
	for i := range 300 {
		before, after := harvest.Owner(all, idOf(i)), harvest.Owner(without, idOf(i))
		shares[before]++
		if before != "t2" && after != before {
			t.Errorf("partition %d moves from %s to %s though t2 went", i, before, after)
		}
	}
	for id, share := range shares {
		if share < 60 || share > 140 {
			t.Errorf("%s has %d of 300 partitions", id, share)
		}
	}
	if owner := harvest.Owner(viewOf(), idOf(1)); owner != "" {
		t.Errorf("%q owns without living", owner)
	}
}

// TestOwnerIsWhomGatewaysAsk has the vectors that the gateway's order of tierers gives too.
func TestOwnerIsWhomGatewaysAsk(t *testing.T) {
	view := viewOf("a", "b", "c", "d")
	got := ""
	for i := range 16 {
		got += harvest.Owner(view, idOf(i))
	}
	if want := "ddcdabbacacccacd"; got != want {
		t.Errorf("owners of partitions 0 to 15 are %s, gateways ask %s", got, want)
	}
}
