package reconcile

import (
	"bytes"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

const (
	// tombstoneKept is how long a deleted topic's settings are kept by the wall clock, for the tierers to remove its objects.
	tombstoneKept = 72 * time.Hour
	// keysPerTxn keeps a Txn within etcd's 128 operations.
	keysPerTxn = 100
)

func (p *Planner) collections(v *topology.View, now time.Time) []Collection {
	var planned []Collection
	for _, id := range sortedTopics(v) {
		if _, known := v.Topics[id]; !known && !p.Creating(id) {
			// Its coordinator died, or failed, before the topic was visible. The compare is for one that is published right now.
			planned = append(planned, inParts(id, topology.Compare{Key: topology.TopicKey(id)}, partitionKeys(v, id))...)
		}
	}
	return append(planned, p.tombstones(v, now)...)
}

func (p *Planner) tombstones(v *topology.View, now time.Time) []Collection {
	var planned []Collection
	since := map[partition.UUID]time.Time{}
	for _, topic := range deletedTopics(v) {
		id := topic.Value.ID
		guard := topology.Compare{Key: topology.TopicKey(id), Target: topology.CompareModRevision, Want: topic.ModRevision}
		keys := partitionKeys(v, id)
		switch {
		case len(keys) > 0 && allLive(v, id):
			first, seen := p.liveSince[id]
			if !seen {
				first = now
			}
			since[id] = first
			if now.Sub(first) >= p.Grace {
				planned = append(planned, inParts(id, guard, keys)...)
			}
		case len(keys) == 0 && now.Sub(*topic.Value.Deleted) >= tombstoneKept:
			planned = append(planned, inParts(id, guard, tombstoneKeys(topic.Value))...)
		}
	}
	p.liveSince = since
	return planned
}

func deletedTopics(v *topology.View) []topology.Versioned[topology.Topic] {
	var deleted []topology.Versioned[topology.Topic]
	for _, topic := range v.Topics {
		if topic.Value.Deleted != nil {
			deleted = append(deleted, topic)
		}
	}
	slices.SortFunc(deleted, func(a, b topology.Versioned[topology.Topic]) int { return bytes.Compare(a.Value.ID[:], b.Value.ID[:]) })
	return deleted
}

// allLive tells whether every broker that still has an identity and a replica of the topic lives, so that it sees the tombstone.
func allLive(v *topology.View, topic partition.UUID) bool {
	for _, a := range v.Partitions[topic] {
		for _, set := range [][]partition.Member{a.Value.Members, a.Value.Learners} {
			for _, m := range set {
				broker, known := v.Brokers[m.Broker]
				if _, live := members.Incarnation(broker); known && !live {
					return false
				}
			}
		}
	}
	return true
}

// partitionKeys are in the order of the partitions: catalog's publish compares the first.
func partitionKeys(v *topology.View, topic partition.UUID) []string {
	var keys []string
	for i, a := range v.Partitions[topic] {
		if a.ModRevision != 0 {
			keys = append(keys, topology.PartitionKey(partition.ID{Topic: topic, Index: partition.Index(i)})) //nolint:gosec // bounded by the View.
		}
	}
	return keys
}

// tombstoneKeys are a deleted topic's last keys, its settings at the end.
func tombstoneKeys(t topology.Topic) []string {
	keys := make([]string, 0, t.Partitions+1)
	for i := range t.Partitions {
		keys = append(keys, topology.TierKey(partition.ID{Topic: t.ID, Index: partition.Index(i)}))
	}
	return append(keys, topology.TopicKey(t.ID))
}

func inParts(topic partition.UUID, guard topology.Compare, keys []string) []Collection {
	var parts []Collection
	for part := range slices.Chunk(keys, keysPerTxn) {
		parts = append(parts, Collection{Topic: topic, Compares: []topology.Compare{guard}, Keys: part})
	}
	return parts
}
