package topology_test

import (
	"strings"
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// TestClaimBrokerKeepsForeignDisksOut: a healthy broker is not ended by another one that was given its id.
func TestClaimBrokerKeepsForeignDisksOut(t *testing.T) {
	store, _ := newStore(t)
	own := []topology.Disk{{ID: partition.UUIDOf(1, 1), State: "ok"}}
	other := []topology.Disk{{ID: partition.UUIDOf(2, 2), State: "ok"}}
	claim := func(disks []topology.Disk) error {
		_, err := topology.ClaimBroker(t.Context(), store, 7, "", disks)
		return err
	}
	if err := claim(own); err != nil {
		t.Fatal(err)
	}
	live, err := topology.Encode(topology.Live{V: topology.SchemaVersion, Node: 7, Capnp: "there:6164"})
	if err != nil {
		t.Fatal(err)
	}
	key := topology.BrokerLiveKey(7)
	if _, err := store.Txn(t.Context(), nil, []topology.Op{{Key: key, Value: live}}); err != nil {
		t.Fatal(err)
	}
	if err := claim(other); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "there:6164") {
		t.Errorf("another directory while the broker is registered: %v", err)
	}
	if err := claim(own); err != nil {
		t.Errorf("its own next life: %v", err)
	}
	if _, err := store.Txn(t.Context(), nil, []topology.Op{{Key: key, Delete: true}}); err != nil {
		t.Fatal(err)
	}
	if err := claim(other); err != nil {
		t.Errorf("a replaced disk when nobody is registered: %v", err)
	}
}
