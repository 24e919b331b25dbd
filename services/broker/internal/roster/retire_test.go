package roster

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

const step = 10 * time.Second

// elsewhere is the assignment of an epoch that other brokers lead.
func elsewhere(epoch partition.Epoch, status topology.Status, base, members, learners []partition.Member) topology.Assignment {
	return topology.Assignment{
		V: topology.SchemaVersion, Epoch: epoch, Leader: topology.Leader{Broker: 2, Incarnation: 1, Replica: partition.UUIDOf(2, 2)},
		Members: members, Learners: learners, Status: status, Base: topology.Base{Epoch: epoch - 1, Members: base},
	}
}

// A member that is replaced promises until the next epoch is active, and is deleted when that has been so for ten minutes and etcd still says
// so; never while it is a member or learner, or a member of the base of an election.
func TestRetire(t *testing.T) {
	b := newBroker(t)
	id := partition.ID{Topic: orders}
	key, dir := topology.PartitionKey(id), dirOf(replicaOf(id))
	self := []partition.Member{{Broker: node, Replica: replicaOf(id)}}
	others := []partition.Member{{Broker: 2, Replica: partition.UUIDOf(2, 2)}}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id)
	b.awaitReady()
	b.publish(id, "a")
	there := func() bool { _, err := b.disk.Stat(dir); return err == nil }
	stays := func(what string) {
		t.Helper()
		end := b.clock.Now().Add(retireAfter + 3*retryEvery)
		b.await("the time", func() bool { b.clock.Advance(step); return b.clock.Now().After(end) })
		if !there() {
			t.Fatalf("deleted as %s", what)
		}
	}
	b.put(key, elsewhere(2, topology.Electing, self, others, nil))
	stays("a member of the base")
	promised := func() bool { r, _ := b.journal.Replica(replicaOf(id)); return r.Promise == 2 }
	b.mu.RLock()
	r := b.mu.held[replicaOf(id)].r
	b.mu.RUnlock()
	if _, serves := b.Replica(id); serves || r == nil {
		t.Errorf("a member of the base alone: serves %v, open %v", serves, r != nil)
	}
	b.Deliver(peer.Delivery{
		Message: peer.Message{Partition: id, From: others[0], To: self[0], Quorum: quorum.Prepare{Epoch: 2}}, Release: func() {},
	})
	b.await("the promise", promised)
	b.put(key, elsewhere(2, topology.Active, self, others, self))
	stays("a learner")
	// The next life opens what the base of an election needs.
	b.put(key, elsewhere(3, topology.Electing, self, others, nil))
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.await("the replica", func() bool {
		b.mu.RLock()
		defer b.mu.RUnlock()
		h := b.mu.held[replicaOf(id)]
		return h != nil && h.r != nil
	})
	b.put(key, elsewhere(3, topology.Active, self, others, nil))
	since := b.clock.Now()
	b.await("deletion", func() bool {
		b.clock.Advance(step)
		_, err := b.disk.Stat(dir)
		return errors.Is(err, fs.ErrNotExist)
	})
	if after := b.clock.Now().Sub(since); after < retireAfter || b.Lost() != nil {
		t.Errorf("deleted after %v, lost: %v", after, b.Lost())
	}
}

// A broker holds a lost member and the learner that takes its place: messages reach the one they are for, members serve before learners.
func TestTwoReplicasOfAPartition(t *testing.T) {
	b := newBroker(t)
	id := partition.ID{Topic: orders}
	key := topology.PartitionKey(id)
	old, young := partition.Member{Broker: node, Replica: replicaOf(id)}, partition.Member{Broker: node, Replica: partition.UUIDOf(5, 5)}
	other := partition.Member{Broker: 2, Replica: partition.UUIDOf(2, 2)}
	b.putTopic(orders, false)
	b.start()
	b.nominate(id)
	b.awaitReady()
	b.put(key, elsewhere(2, topology.Electing, []partition.Member{old}, []partition.Member{old, other}, []partition.Member{young}))
	b.await("both", func() bool { return len(b.all()) == 2 })
	if r, ok := b.Replica(id); !ok || r.ID() != old.Replica {
		t.Errorf("%v serves", r)
	}
	for _, to := range []partition.Member{old, young} {
		b.Deliver(peer.Delivery{
			Message: peer.Message{Partition: id, From: other, To: to, Quorum: quorum.Prepare{Epoch: 2}}, Release: func() {},
		})
		b.await("the promise", func() bool { r, _ := b.journal.Replica(to.Replica); return r.Promise == 2 })
	}
	b.put(key, elsewhere(3, topology.Active, []partition.Member{old}, []partition.Member{other, young}, nil))
	b.await("the young one serves", func() bool { r, ok := b.Replica(id); return ok && r.ID() == young.Replica })
	released := false
	b.Deliver(peer.Delivery{Message: peer.Message{Partition: id, To: other, Quorum: quorum.Prepare{}}, Release: func() { released = true }})
	if !released {
		t.Error("a message for nobody is kept")
	}
}

// A member that comes when the others have begun without it starts empty, if its partition was made in this life of the broker: no other disk
// can have held it. In a later life the same is a loss.
func TestLateMember(t *testing.T) {
	for name, claimed := range map[string]int64{"made in this life": 1, "made before": 1 << 40, "not known": 0} {
		t.Run(name, func(t *testing.T) {
			b := newBroker(t)
			b.claimed = claimed
			id := partition.ID{Topic: orders}
			self := partition.Member{Broker: node, Replica: replicaOf(id)}
			b.putTopic(orders, false)
			b.start()
			members := []partition.Member{{Broker: 2, Replica: partition.UUIDOf(2, 2)}, self}
			b.put(topology.PartitionKey(id), elsewhere(1, topology.Active, nil, members, nil))
			if claimed == 1 {
				b.await("the replica", func() bool { _, ok := b.Replica(id); return ok })
				return
			}
			b.await("the loss", func() bool { return len(b.Lost()) == 1 })
		})
	}
}
