package broker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

func replicaOf(id int) partition.Member {
	return partition.Member{Broker: partition.NodeID(id), Replica: partition.UUIDOf(21, uint64(id))}
}

// startNode runs broker id on the host "bID".
func (w *world) startNode(t *testing.T, id int, dir *memfs.FS) *running {
	t.Helper()
	host := fmt.Sprintf("b%d", id)
	cfg, deps := w.config(), w.deps(dir)
	cfg.NodeID, cfg.CapnpHost, cfg.HTTPHost = uint64(id), host+":0", host+":0"
	cfg.DrainTimeout = 0 // there is no coordinator
	deps.Network = w.net.At(host)
	return w.startWith(t, cfg, deps)
}

// elect nominates a member of the orders' partition, once its broker has registered, and waits until it leads.
func (w *world) elect(t *testing.T, id int, members ...partition.Member) {
	t.Helper()
	var live topology.Live
	w.eventually(t, "its registration", func() bool {
		kv, ok, _, err := w.store.Get(t.Context(), topology.BrokerLiveKey(partition.NodeID(id)))
		if err == nil && ok {
			live, err = topology.Decode[topology.Live](kv.Value)
		}
		return err == nil && ok
	})
	leader := topology.Leader{Broker: partition.NodeID(id), Incarnation: live.Incarnation, Replica: replicaOf(id).Replica}
	if len(members) > 0 {
		w.put(t, topology.PartitionKey(orders), topology.First(leader, members))
	} else {
		old := w.assignment(t)
		w.put(t, topology.PartitionKey(orders), old.Nominate(leader, old.Members))
	}
	w.eventually(t, "its activation", func() bool {
		a := w.assignment(t)
		return a.Status == topology.Active && a.Leader == leader
	})
}

func (w *world) assignment(t *testing.T) topology.Assignment {
	t.Helper()
	kv, _, _, err := w.store.Get(t.Context(), topology.PartitionKey(orders))
	if err != nil {
		t.Fatal(err)
	}
	a, err := topology.Decode[topology.Assignment](kv.Value)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (w *world) eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for range 2000 {
		if is() {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("waited for %s in vain", what)
}

// reads waits until a broker shows as many records as it should, which it does once it knows how far the log is committed, and compares them.
func (w *world) reads(t *testing.T, client *frame.Client, who string, want []string) {
	t.Helper()
	var got []string
	w.eventually(t, who+" to show what was acknowledged", func() bool {
		all, err := fetch(t.Context(), client, 0, 0)
		if fault.Is(err, fault.NotLeader) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		got = all.Values
		return len(got) >= len(want)
	})
	if !slices.Equal(got, want) {
		t.Errorf("%s has %v", who, got)
	}
}

// A record that was acknowledged is on a majority: it is there when the leader is gone for good, is read from followers, and the broker that
// comes back catches up.
func TestReplication(t *testing.T) {
	w := newWorld(t)
	dirs := map[int]*memfs.FS{}
	nodes := map[int]*running{}
	for id := 1; id <= 3; id++ {
		dirs[id] = memfs.New()
		nodes[id] = w.startNode(t, id, dirs[id])
	}
	topic := topology.Topic{
		V: 1, ID: topicID, Namespace: topology.DefaultNamespace, Name: "orders", Partitions: 1, ReplicationFactor: 3, MapVersion: 1,
		Durability: topology.DurabilityQuorum, SegmentBytes: 1 << 20, SegmentAge: topology.Duration(time.Hour), BatchBytesMax: 4 << 20, Created: time.Now(),
	}
	w.put(t, topology.TopicKey(topicID), topic)
	w.put(t, topology.NameKey(topic.FullName()), topology.TopicRef{V: 1, ID: topicID})
	w.elect(t, 1, replicaOf(1), replicaOf(2), replicaOf(3))

	s := &session{t: t, producer: 77}
	var want []string
	send := func(client *frame.Client, n int) {
		for range n {
			value := fmt.Sprintf("record %d", len(want))
			msg := s.next(value)
			w.eventually(t, "the leader to lead", func() bool {
				_, err := publish(t.Context(), client, msg)
				if err != nil && !fault.Is(err, fault.NotLeader) {
					t.Fatal(err)
				}
				return err == nil
			})
			want = append(want, value)
		}
	}
	send(nodes[1].client(wirecapnp.Role_gateway), 50)
	if err := nodes[1].end(); err != nil {
		t.Fatal(err)
	}
	w.elect(t, 2)
	second := nodes[2].client(wirecapnp.Role_gateway)
	w.reads(t, second, "the second leader", want)
	w.eventually(t, "the second leader to know a record that the first one stored", func() bool {
		got, err := publish(t.Context(), second, s.sent[3])
		return err == nil && got.Dup
	})
	send(second, 50)
	nodes[1] = w.startNode(t, 1, dirs[1])
	for _, id := range []int{1, 3} {
		w.reads(t, w.dialWhenUp(t, nodes[id]), fmt.Sprintf("follower %d", id), want)
	}
}

func (w *world) dialWhenUp(t *testing.T, n *running) *frame.Client {
	t.Helper()
	w.eventually(t, "the broker", func() bool { return n.Ready() == nil })
	return n.client(wirecapnp.Role_gateway)
}
