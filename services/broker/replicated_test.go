package broker_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker"
)

// trio is three brokers that hold one partition, over the network in memory. The test plays the coordinator.
type trio struct {
	*world
	t     *testing.T
	disks [4]*memfs.FS
	up    [4]*running // by number
}

func newTrio(t *testing.T) *trio {
	c := &trio{world: newWorld(t), t: t}
	for id := 1; id <= 3; id++ {
		c.disks[id] = memfs.New()
		c.begin(id)
	}
	c.put(t, topology.TopicKey(topicID), topology.Topic{
		V: 1, ID: topicID, Namespace: topology.DefaultNamespace, Name: "orders", Partitions: 1, ReplicationFactor: 3, MapVersion: 1,
		Durability: topology.DurabilityQuorum, SegmentBytes: 64 << 10, BatchBytesMax: 64 << 10, Created: time.Now(),
	})
	return c
}

// begin starts a broker on its disk.
func (c *trio) begin(id int) {
	c.t.Helper()
	host := fmt.Sprintf("broker%d", id)
	cfg := c.config()
	cfg.NodeID, cfg.CapnpHost, cfg.HTTPHost = uint64(id), host+":0", host+":0"
	deps := c.deps(c.disks[id])
	deps.Network = c.at(host)
	b, err := broker.New(c.t.Context(), cfg, deps)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &running{Broker: b, t: c.t, world: c.world, stop: cancel, ended: make(chan error, 1)}
	go func() { n.ended <- b.Run(ctx) }()
	c.t.Cleanup(func() {
		cancel()
		<-n.ended
	})
	c.up[id] = n
	c.incarnation(id, 0)
}

// kill ends a broker with what its disk holds at this moment.
func (c *trio) kill(id int) {
	survivor := c.disks[id].CrashAll()
	_ = c.up[id].end() // its disk is not looked at any more
	c.disks[id], c.up[id] = survivor, nil
}

// incarnation waits until a broker is registered behind a life.
func (c *trio) incarnation(id int, behind partition.Incarnation) partition.Incarnation {
	c.t.Helper()
	for range 1000 {
		kv, ok, _, err := c.store.Get(c.t.Context(), topology.BrokerLiveKey(partition.NodeID(id)))
		if err == nil && ok {
			if live, err := topology.Decode[topology.Live](kv.Value); err == nil && live.Incarnation > behind {
				return live.Incarnation
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("broker %d does not register", id)
	return 0
}

// lead nominates a broker and waits until its epoch is active.
func (c *trio) lead(id int) {
	c.t.Helper()
	var members []partition.Member
	for id := 1; id <= 3; id++ {
		members = append(members, partition.Member{Broker: partition.NodeID(id), Replica: partition.UUIDOf(21, uint64(id))})
	}
	leader := topology.Leader{Broker: members[id-1].Broker, Replica: members[id-1].Replica, Incarnation: c.incarnation(id, 0)}
	next := topology.First(leader, members)
	if kv, ok, _, err := c.store.Get(c.t.Context(), topology.PartitionKey(orders)); err != nil {
		c.t.Fatal(err)
	} else if ok {
		old, err := topology.Decode[topology.Assignment](kv.Value)
		if err != nil {
			c.t.Fatal(err)
		}
		next = old.Nominate(leader, members)
	}
	c.put(c.t, topology.PartitionKey(orders), next)
	for range 1000 {
		if c.up[id].Ready() == nil {
			kv, _, _, _ := c.store.Get(c.t.Context(), topology.PartitionKey(orders))
			if a, err := topology.Decode[topology.Assignment](kv.Value); err == nil && a.Epoch == next.Epoch && a.Status == topology.Active {
				return
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	c.t.Fatalf("epoch %d of broker %d does not become active", next.Epoch, id)
}

// has waits until a broker gives all of these values, and nothing else.
func (c *trio) has(id int, want []string) {
	c.t.Helper()
	client := c.up[id].client(wirecapnp.Role_gateway)
	var got []string
	for range 1000 {
		got = nil
		for offset := partition.Offset(0); ; {
			part, err := fetch(c.t.Context(), client, offset, 0)
			if err != nil || part.Next == offset {
				break // what is committed ends here
			}
			got, offset = append(got, part.Values...), part.Next
		}
		if len(got) >= len(want) {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		c.t.Errorf("broker %d: %s", id, diff)
	}
}

// Three brokers with real connections: what was acknowledged survives the leader that is killed, and all of them end up with it.
func TestThreeBrokers(t *testing.T) { synctest.Test(t, threeBrokers) }

func threeBrokers(t *testing.T) {
	c := newTrio(t)
	var want []string
	sender := &session{t: t, producer: 1}
	publishTo := func(id, n int) {
		client := c.up[id].client(wirecapnp.Role_gateway)
		for range n {
			value := fmt.Sprintf("%d %0*d", len(want), 3000, 0)
			got, err := publish(t.Context(), client, sender.next(value))
			if err != nil || got.Durability != wirecapnp.Durability_fsyncQuorum {
				t.Fatalf("publish to %d: %+v, %v", id, got, err)
			}
			want = append(want, value)
		}
	}
	c.lead(1)
	publishTo(1, 100)
	c.kill(3)
	publishTo(1, 50)
	c.kill(1)
	c.begin(3)
	c.lead(2)
	publishTo(2, 50)
	c.begin(1)
	for id := 1; id <= 3; id++ {
		c.has(id, want)
	}
}
