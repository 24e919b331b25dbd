package moves

import (
	"cmp"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
)

// Facts are what is known at a moment.
type Facts struct {
	Brokers members.Index // their counts of replicas grow as replicas are planned
	Told    reports.Reports
	// Away is since when a broker has not lived, as this coordinator has seen it; missing = it lives.
	Away     map[partition.NodeID]time.Time
	Learning *Learning
	Now      time.Time
	// AtOnce is how many partitions change their members at a time; DeadAfter how long a broker is waited for, 0 = for ever.
	AtOnce    int
	DeadAfter time.Duration
	NewUUID   func() partition.UUID
}

// awayMax is how long the broker of a learner is waited for.
const awayMax = 30 * time.Second

// Kind of a Step.
type Kind string

// Kinds.
const (
	Started  Kind = "started"  // replicas learn
	Finished Kind = "finished" // the next epoch has the planned members
	GaveUp   Kind = "gave-up"  // the members stay what they are, or wait for their turn again
)

// Step is one compare-and-swap of an assignment.
type Step struct {
	ID          partition.ID
	ModRevision int64
	Next        topology.Assignment
	Kind        Kind
	Why         topology.MoveReason
	// Given is the leader that the step replaces, with Finished.
	Given partition.NodeID
}

// Partition is one as it is.
type Partition struct {
	ID         partition.ID
	Assignment topology.Versioned[topology.Assignment]
	Factor     int // the topic's
}

// Changing tells whether a partition's change has started.
func (p Partition) Changing() bool { return p.Assignment.Value.Started() }

// Plan gives the steps that can be taken now.
func (f *Facts) Plan(all []Partition) []Step {
	var steps []Step
	var waiting []wish
	slots := f.AtOnce
	for _, p := range all {
		a := p.Assignment.Value
		switch {
		case a.Moving == nil || !a.Started():
			if why, wants := f.wants(p); wants {
				waiting = append(waiting, wish{p, why})
			}
		case f.served(a):
			step, ok := f.advance(p)
			if ok {
				steps = append(steps, step)
			} else {
				slots--
			}
		}
	}
	slices.SortStableFunc(waiting, func(a, b wish) int { return cmp.Compare(a.urgency(), b.urgency()) })
	for _, w := range waiting {
		if slots <= 0 {
			break
		}
		if step, ok := f.start(w); ok {
			steps = append(steps, step)
			if step.Kind == Started {
				slots--
			}
		}
	}
	return steps
}

type wish struct {
	Partition

	why topology.MoveReason
}

func (w wish) urgency() int {
	return slices.Index([]topology.MoveReason{
		topology.MoveLost, topology.MoveDead, topology.MoveReassign, topology.MoveDecommission, topology.MoveFactor,
	}, w.why)
}

// served tells whether a partition has a leader that serves.
func (f *Facts) served(a topology.Assignment) bool {
	b := f.Brokers[a.Leader.Broker]
	return a.Status == topology.Active && b != nil && b.Live && b.Incarnation == a.Leader.Incarnation
}

// wants tells why a partition's members should change, if it can be.
func (f *Facts) wants(p Partition) (topology.MoveReason, bool) {
	a := p.Assignment.Value
	if !f.served(a) {
		return "", false
	}
	if a.Moving != nil {
		return a.Moving.Why, true
	}
	worst := fine
	for _, m := range a.Members {
		worst = max(worst, f.judge(p.ID, m))
	}
	switch worst {
	case lost:
		return topology.MoveLost, true
	case dead:
		return topology.MoveDead, true
	case leaving:
		return topology.MoveDecommission, true
	default:
		return topology.MoveFactor, len(a.Members) != p.Factor
	}
}

// How bad a member is.
const (
	fine = iota
	leaving
	dead
	lost
)

func (f *Facts) judge(id partition.ID, m partition.Member) int {
	b := f.Brokers[m.Broker]
	since, away := f.Away[m.Broker]
	switch {
	case f.Told.Lost(id, m) && b != nil && b.Live:
		return lost
	case b == nil, away && f.DeadAfter > 0 && f.Now.Sub(since) >= f.DeadAfter:
		return dead
	case b.Leaving:
		return leaving
	default:
		return fine
	}
}

// start begins a change, or gives up a plan that cannot be.
func (f *Facts) start(w wish) (Step, bool) {
	a := w.Assignment.Value
	step := Step{ID: w.ID, ModRevision: w.Assignment.ModRevision, Kind: Started, Why: w.why}
	if a.Moving == nil {
		target, ok := f.target(w.Partition)
		if !ok {
			return Step{}, false
		}
		step.Next = a.Plan(topology.Moving{Members: target, Why: w.why, Planned: f.Now.UTC()}).Teach()
		return step, true
	}
	for _, m := range a.Added() {
		b := f.Brokers[m.Broker]
		if b == nil || b.Leaving {
			step.Kind, step.Next = GaveUp, a.Stay()
			return step, true
		}
		if !b.Live {
			return Step{}, false
		}
	}
	step.Next = a.Teach()
	return step, true
}

// advance finishes a change that has started, or gives it up; else it goes on.
func (f *Facts) advance(p Partition) (Step, bool) {
	a := p.Assignment.Value
	step := Step{ID: p.ID, ModRevision: p.Assignment.ModRevision, Kind: GaveUp, Why: a.Moving.Why}
	if next, stuck := f.giveUp(p); stuck {
		step.Next = next
		return step, true
	}
	leader, ok := f.finisher(p)
	if !ok {
		return Step{}, false
	}
	step.Kind, step.Next, step.Given = Finished, a.Reconfigure(leader), a.Leader.Broker
	return step, true
}

// giveUp tells whether a change cannot end, and what comes instead.
func (f *Facts) giveUp(p Partition) (topology.Assignment, bool) {
	a := p.Assignment.Value
	if a.Moving.Why == topology.MoveFactor && len(a.Moving.Members) != p.Factor {
		return a.Stay(), true
	}
	back := a.Moving.Why == topology.MoveDead
	for _, m := range a.Members {
		back = back && f.judge(p.ID, m) != dead
	}
	if back {
		return a.Stay(), true
	}
	for _, m := range a.Learners {
		since, away := f.Away[m.Broker]
		switch verdict := f.judge(p.ID, m); {
		case verdict == leaving, verdict == dead:
			return a.Stay(), true
		case verdict == lost:
			if a.Moving.Why != topology.MoveReassign {
				return a.Stay(), true
			}
			return a.Plan(topology.Moving{Members: f.renew(a.Moving.Members, m), Why: a.Moving.Why, Planned: a.Moving.Planned}), true
		case away && f.Now.Sub(since) >= awayMax:
			if a.Moving.Why != topology.MoveReassign {
				return a.Stay(), true
			}
			return a.Plan(*a.Moving), true // which waits for the broker
		}
	}
	return topology.Assignment{}, false
}

// renew gives a lost replica another identity.
func (f *Facts) renew(set []partition.Member, old partition.Member) []partition.Member {
	next := slices.Clone(set)
	next[slices.Index(next, old)].Replica = f.NewUUID()
	return next
}

// finisher gives the leader of the new member set, when that is ready.
func (f *Facts) finisher(p Partition) (topology.Leader, bool) {
	a := p.Assignment.Value
	for _, m := range a.Learners {
		if !f.ready(p, m) {
			return topology.Leader{}, false
		}
	}
	ready := 0
	var best *members.Broker
	var leader topology.Leader
	for _, m := range a.Moving.Members {
		stays := m == partition.Member{Broker: a.Leader.Broker, Replica: a.Leader.Replica}
		if !stays && !f.ready(p, m) {
			continue
		}
		ready++
		b := f.Brokers[m.Broker]
		if stays {
			leader, best = a.Leader, b
		}
		if leader != a.Leader && (best == nil || better(b, best)) {
			leader, best = topology.Leader{Broker: b.ID, Incarnation: b.Incarnation, Replica: m.Replica}, b
		}
	}
	return leader, ready > len(a.Moving.Members)/2
}

// ready tells whether a replica lives and has caught up.
func (f *Facts) ready(p Partition, m partition.Member) bool {
	b := f.Brokers[m.Broker]
	return b != nil && b.Live && !f.Told.Lost(p.ID, m) && f.Learning.Caught(p.ID, p.Assignment.Value.Epoch, m.Replica)
}

// better tells whether a is the better leader than b.
func better(a, b *members.Broker) bool {
	if a.Draining != b.Draining {
		return b.Draining
	}
	return cmp.Or(cmp.Compare(a.Leads, b.Leads), cmp.Compare(a.ID, b.ID)) < 0
}
