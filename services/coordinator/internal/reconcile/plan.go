package reconcile

import (
	"bytes"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/moves"
	"github.com/seedqueue/sq/services/coordinator/internal/nomination"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

// balanceQuiet is how long after a failover leaderships stay where they came to be.
const balanceQuiet = 60 * time.Second

// Change is one compare-and-swap of an assignment.
type Change struct {
	ID          partition.ID
	ModRevision int64 // of the assignment it was planned from
	Next        topology.Assignment
	// Why a leader is nominated; "" = the epoch stays, and Move says what happens.
	Why nomination.Why
	// Move and Reason are of a change of members; Move "" = there is none.
	Move   moves.Kind
	Reason topology.MoveReason
	// Given is the broker whose leadership ends, with Why.
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
	Changes     []Change
	Collections []Collection // in the order in which they must be done
}

// Planner remembers what a plan rests on beside the View: since when brokers are away, when partitions were nominated last, how far learners
// were. It is used by one goroutine.
type Planner struct {
	// Creating tells of a topic without settings that it is about to get them.
	Creating func(partition.UUID) bool
	// Grace is how long brokers have to delete a topic's data.
	Grace time.Duration
	// MovesAtOnce is how many partitions change their members at a time.
	MovesAtOnce int
	// DeadAfter is how long a broker may be away until its replicas are replaced; 0 = for ever.
	DeadAfter time.Duration
	NewUUID   func() partition.UUID

	liveSince map[partition.UUID]time.Time
	away      map[partition.NodeID]time.Time
	holds     *nomination.Holds
	learning  *moves.Learning
	failover  time.Time // the last
}

// Round is one look at the cluster, from which a plan is made when what it asks has been answered.
type Round struct {
	Totals Totals
	// Questions are to be asked of brokers before the plan is made, Learners of partitions' leaders.
	Questions []survey.Question
	Learners  []moves.Partition

	planner    *Planner
	view       *topology.View
	facts      nomination.Facts
	leads      nomination.Leads
	partitions []moves.Partition
	vacancies  []nomination.Vacancy
}

// Look finds what a View and the reports ask for at a time.
func (p *Planner) Look(v *topology.View, told reports.Reports, now time.Time) *Round {
	if p.holds == nil {
		p.holds, p.learning = nomination.NewHolds(), moves.NewLearning()
		p.failover = now // of the coordinator, for all we know
	}
	brokers := members.Of(v, told)
	r := &Round{planner: p, view: v, leads: nomination.Leads{}}
	r.facts = nomination.Facts{Brokers: members.ByID(brokers), Told: told, Holds: p.holds, Now: now}
	for _, b := range brokers {
		r.leads[b.ID] = b.Leads
	}
	p.watch(brokers, now)
	r.partitions = partitionsOf(v)
	p.holds.Settle(now)
	p.holds.Keep(func(id partition.ID) bool { _, there := v.Partition(id); return there })
	electing := 0
	for _, part := range r.partitions {
		a := part.Assignment
		if a.Value.Status == topology.Electing {
			p.holds.Electing(part.ID, a.Value.Epoch, now)
			electing++
		} else {
			p.holds.Elected(part.ID)
		}
		if vacancy, ok := r.facts.Look(part.ID, a); ok {
			r.vacancies = append(r.vacancies, vacancy)
		}
	}
	r.Totals = totals(r)
	if len(r.vacancies) == 0 && electing == 0 && now.Sub(p.failover) >= balanceQuiet {
		r.vacancies = r.balance()
	}
	r.Questions = nomination.Ask(r.vacancies)
	r.Learners = p.learners(r.partitions)
	return r
}

// watch notes since when brokers are away.
func (p *Planner) watch(brokers []members.Broker, now time.Time) {
	away := map[partition.NodeID]time.Time{}
	for _, b := range brokers {
		if b.Live {
			continue
		}
		since, was := p.away[b.ID]
		if !was {
			since = now
		}
		away[b.ID] = since
	}
	p.away = away
}

func (r *Round) balance() []nomination.Vacancy {
	all := make([]nomination.Partition, len(r.partitions))
	for i, part := range r.partitions {
		all[i] = nomination.Partition{ID: part.ID, Assignment: part.Assignment}
	}
	leads := nomination.Leads{}
	for id, n := range r.leads {
		leads[id] = n
	}
	return r.facts.Uneven(all, leads)
}

// learners are the changes under way whose leaders are asked.
func (p *Planner) learners(all []moves.Partition) []moves.Partition {
	var asked []moves.Partition
	kept := map[partition.ID]struct{}{}
	for _, part := range all {
		if part.Changing() && part.Assignment.Value.Status == topology.Active {
			kept[part.ID] = struct{}{}
			if len(asked) < learnersAsked*p.MovesAtOnce {
				asked = append(asked, part)
			}
		}
	}
	p.learning.Keep(kept)
	return asked
}

// Decide makes the plan, with what was answered.
func (r *Round) Decide(at survey.Positions, progress map[partition.ID]survey.Progress) Plan {
	p := r.planner
	plan := Plan{Collections: p.collections(r.view, r.facts.Now)}
	taken := map[partition.ID]struct{}{}
	for _, v := range r.vacancies {
		leader, ok := r.facts.Choose(v, at, r.leads)
		if !ok {
			continue
		}
		a := v.Assignment.Value
		r.leads.Move(a.Leader.Broker, leader.Broker)
		taken[v.ID] = struct{}{}
		plan.Changes = append(plan.Changes, Change{
			ID: v.ID, ModRevision: v.Assignment.ModRevision, Next: a.Nominate(leader, a.Members), Why: v.Why, Given: a.Leader.Broker,
		})
	}
	for id, told := range progress {
		p.learning.Take(id, told)
	}
	rest := slices.DeleteFunc(r.partitions, func(part moves.Partition) bool { _, gone := taken[part.ID]; return gone })
	facts := moves.Facts{
		Brokers: r.facts.Brokers, Told: r.facts.Told, Away: p.away, Learning: p.learning, Now: r.facts.Now,
		AtOnce: p.MovesAtOnce, DeadAfter: p.DeadAfter, NewUUID: p.NewUUID,
	}
	for _, s := range facts.Plan(rest) {
		change := Change{ID: s.ID, ModRevision: s.ModRevision, Next: s.Next, Move: s.Kind, Reason: s.Why}
		if s.Kind == moves.Finished {
			change.Why, change.Given = nomination.Members, s.Given
		}
		plan.Changes = append(plan.Changes, change)
	}
	return plan
}

// Done notes a change that was written.
func (p *Planner) Done(c Change, now time.Time) {
	if c.Why == "" {
		return
	}
	p.holds.Electing(c.ID, c.Next.Epoch, now)
	if !c.Why.Planned() {
		p.holds.Nominated(c.ID, now)
		p.failover = now
	}
}

// partitionsOf lists the partitions of topics that are not deleted, by id.
func partitionsOf(v *topology.View) []moves.Partition {
	var all []moves.Partition
	for _, topic := range sortedTopics(v) {
		known, ok := v.Topics[topic]
		if !ok || known.Value.Deleted != nil {
			continue
		}
		for i, a := range v.Partitions[topic] {
			if a.ModRevision != 0 {
				id := partition.ID{Topic: topic, Index: partition.Index(i)} //nolint:gosec // bounded by the View.
				all = append(all, moves.Partition{ID: id, Assignment: a, Factor: int(known.Value.ReplicationFactor)})
			}
		}
	}
	return all
}

func sortedTopics(v *topology.View) []partition.UUID {
	topics := make([]partition.UUID, 0, len(v.Partitions))
	for id := range v.Partitions {
		topics = append(topics, id)
	}
	slices.SortFunc(topics, func(a, b partition.UUID) int { return bytes.Compare(a[:], b[:]) })
	return topics
}
