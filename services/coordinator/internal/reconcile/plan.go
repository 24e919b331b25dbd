package reconcile

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

// Why a leader is nominated.
type Why string

// Reasons.
const (
	// LeaderGone: the leader's broker has no live key.
	LeaderGone Why = "leader-gone"
	// LeaderRestarted: the leader's broker lives in another incarnation.
	LeaderRestarted Why = "leader-restarted"
)

// Nomination is one compare-and-swap of an assignment.
type Nomination struct {
	ID          partition.ID
	ModRevision int64 // of the assignment it was planned from
	Next        topology.Assignment
	Why         Why
	// Given is the broker whose leadership ends.
	Given partition.NodeID
}

// Collection removes keys while the compares hold.
type Collection struct {
	Topic    partition.UUID
	Compares []topology.Compare
	Keys     []string
}

// Plan is what should be done.
type Plan struct {
	Nominations []Nomination // by partition
	Collections []Collection // in the order in which they must be done
}

// Planner remembers, between plans, since when a deleted topic's brokers have all been live. It is used by one goroutine.
type Planner struct {
	// Creating tells of a topic without settings that it is about to get them.
	Creating func(partition.UUID) bool
	// Grace is how long brokers have to delete a topic's data.
	Grace time.Duration

	liveSince map[partition.UUID]time.Time
}

// Plan decides what a View asks for at a time.
func (p *Planner) Plan(v *topology.View, now time.Time) Plan {
	return Plan{Nominations: nominations(v), Collections: p.collections(v, now)}
}

func nominations(v *topology.View) []Nomination {
	leads := map[partition.NodeID]int{}
	for _, b := range members.Of(v) {
		leads[b.ID] = b.Leads
	}
	var planned []Nomination
	for _, topic := range sortedTopics(v) {
		if known, ok := v.Topics[topic]; !ok || known.Value.Deleted != nil {
			continue
		}
		for i, a := range v.Partitions[topic] {
			id := partition.ID{Topic: topic, Index: partition.Index(i)} //nolint:gosec // bounded by the View.
			if n, ok := nominate(v, id, a, leads); ok {
				planned = append(planned, n)
			}
		}
	}
	return planned
}

func sortedTopics(v *topology.View) []partition.UUID {
	topics := make([]partition.UUID, 0, len(v.Partitions))
	for id := range v.Partitions {
		topics = append(topics, id)
	}
	slices.SortFunc(topics, func(a, b partition.UUID) int { return bytes.Compare(a[:], b[:]) })
	return topics
}

// nominate plans for one partition and counts the new leader in leads.
func nominate(
	v *topology.View, id partition.ID, a topology.Versioned[topology.Assignment], leads map[partition.NodeID]int,
) (Nomination, bool) {
	if a.ModRevision == 0 {
		return Nomination{}, false
	}
	given := a.Value.Leader
	incarnation, lives := members.Incarnation(v.Brokers[given.Broker])
	if lives && incarnation == given.Incarnation {
		return Nomination{}, false
	}
	why := LeaderGone
	if lives {
		why = LeaderRestarted
	}
	candidate, ok := candidate(v, a.Value, leads)
	if !ok {
		return Nomination{}, false
	}
	leads[given.Broker]--
	leads[candidate.Broker]++
	return Nomination{
		ID: id, ModRevision: a.ModRevision, Next: a.Value.Nominate(candidate, a.Value.Members), Why: why, Given: given.Broker,
	}, true
}

// candidate chooses among the live members: the broker that led before, whose log is the likeliest to be whole, else the one that leads
// the fewest partitions.
func candidate(v *topology.View, a topology.Assignment, leads map[partition.NodeID]int) (topology.Leader, bool) {
	var live []topology.Leader
	for _, m := range a.Members {
		incarnation, lives := members.Incarnation(v.Brokers[m.Broker])
		if !lives {
			continue
		}
		l := topology.Leader{Broker: m.Broker, Incarnation: incarnation, Replica: m.Replica}
		if m.Broker == a.Leader.Broker {
			return l, true
		}
		live = append(live, l)
	}
	if len(live) == 0 {
		return topology.Leader{}, false
	}
	return slices.MinFunc(live, func(a, b topology.Leader) int {
		return cmp.Or(cmp.Compare(leads[a.Broker], leads[b.Broker]), cmp.Compare(a.Broker, b.Broker))
	}), true
}
