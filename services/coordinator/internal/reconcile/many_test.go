package reconcile_test

import (
	"fmt"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
)

// A broker that led ten thousand partitions dies: all are nominated in one round, a hundred in a Txn, over the others in equal parts, from one
// question to each of them. Where nothing happens nothing is written.
func TestTenThousandLoseTheirLeader(t *testing.T) {
	w := newWorld(t)
	w.must([]string{"elect", "a"}, []string{"broker", "1", "up"}, []string{"broker", "2", "up"}, []string{"broker", "3", "up"})
	topic := w.newUUID()
	settings, err := topology.Encode(topology.Topic{V: 1, ID: topic, Name: "many", Partitions: 10_000, ReplicationFactor: 3})
	if err != nil {
		t.Fatal(err)
	}
	ops := []topology.Op{{Key: topology.TopicKey(topic), Value: settings}}
	for i := range partition.Index(10_000) {
		set := []partition.Member{{Broker: 1, Replica: w.newUUID()}, {Broker: 2, Replica: w.newUUID()}, {Broker: 3, Replica: w.newUUID()}}
		value, err := topology.Encode(topology.First(topology.Leader{Broker: 1, Incarnation: 1, Replica: set[0].Replica}, set).Activate(0))
		if err != nil {
			t.Fatal(err)
		}
		ops = append(ops, topology.Op{Key: topology.PartitionKey(partition.ID{Topic: topic, Index: i}), Value: value})
		if len(ops) == 100 || i == 9_999 {
			if _, err := w.store.Txn(w.ctx, nil, ops); err != nil {
				t.Fatal(err)
			}
			ops = nil
		}
	}
	txns := 0
	w.store.SetFaults(func(call memstore.Call) memstore.Fault {
		if call.Method == memstore.Txn {
			txns++
		}
		return memstore.None
	})
	w.must([]string{"reconcile", "a"}, []string{"reconcile", "a"})
	if txns != 0 {
		t.Errorf("%d writes although nothing has happened", txns)
	}
	w.must([]string{"broker", "1", "down"})
	txns = 0
	w.must([]string{"reconcile", "a"})
	if txns != 100 {
		t.Errorf("%d writes for 10,000 partitions", txns)
	}
	w.must([]string{"reconcile", "a"})
	if txns != 100 {
		t.Errorf("%d writes although all are nominated", txns-100)
	}
	leads := map[partition.NodeID]int{}
	for _, a := range w.active().views.View().Partitions[topic] {
		leads[a.Value.Leader.Broker]++
	}
	if got := fmt.Sprint(leads); got != "map[2:5000 3:5000]" {
		t.Errorf("leaders: %s", got)
	}
}
