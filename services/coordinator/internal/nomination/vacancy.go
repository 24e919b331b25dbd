package nomination

import (
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
)

// Why a leader is nominated.
type Why string

// Reasons.
const (
	LeaderGone      Why = "leader-gone"      // its broker has no live key
	LeaderRestarted Why = "leader-restarted" // its broker lives in another incarnation
	LeaderLost      Why = "leader-lost"      // its replica has lost its data
	LeaderSuspected Why = "leader-suspected" // a majority of the members does not reach it
	LeaderStuck     Why = "leader-stuck"     // it was nominated, and does not become active
	LeaderDraining  Why = "leader-draining"  // its broker is to lead nothing
	Balance         Why = "balance"          // its broker leads more than others
	Transfer        Why = "transfer"         // an operator asked for it
	Members         Why = "members"          // with another set of members
	Recovery        Why = "forced-recovery"  // an operator gave up what a lost majority had
)

// Planned tells whether the leader that is given up serves until it is replaced.
func (w Why) Planned() bool {
	return w == LeaderDraining || w == Balance || w == Transfer || w == Members
}

// Facts are what is known at a moment.
type Facts struct {
	Brokers members.Index
	Told    reports.Reports
	Holds   *Holds
	Now     time.Time
}

// Vacancy is a partition that needs another leader, with those who may be it.
type Vacancy struct {
	ID         partition.ID
	Assignment topology.Versioned[topology.Assignment]
	Why        Why
	Candidates []topology.Leader
}

// Look tells whether a partition needs another leader now, and has one.
func (f *Facts) Look(id partition.ID, a topology.Versioned[topology.Assignment]) (Vacancy, bool) {
	why, vacant := f.why(id, a.Value)
	if !vacant {
		return Vacancy{}, false
	}
	v := Vacancy{ID: id, Assignment: a, Why: why, Candidates: f.Candidates(id, a.Value)}
	if why != LeaderGone && why != LeaderRestarted {
		v.Candidates = slices.DeleteFunc(v.Candidates, func(c topology.Leader) bool { return c == a.Value.Leader })
	}
	if why == LeaderDraining {
		v.Candidates = slices.DeleteFunc(v.Candidates, func(c topology.Leader) bool { return f.avoided(c.Broker) })
	}
	return v, len(v.Candidates) > 0
}

func (f *Facts) why(id partition.ID, a topology.Assignment) (Why, bool) {
	given, held := f.Brokers[a.Leader.Broker], f.Holds.Held(id, f.Now)
	switch {
	case given == nil || !given.Live:
		return LeaderGone, true
	case given.Incarnation != a.Leader.Incarnation:
		return LeaderRestarted, true
	case f.Told.Lost(id, leading(a)) && !held:
		return LeaderLost, true
	case f.suspected(given, a.Members) && !held:
		return LeaderSuspected, true
	case a.Status == topology.Electing:
		return LeaderStuck, !held && f.Holds.Stuck(id, a.Epoch, f.Now) && f.reachable(a)
	default:
		return LeaderDraining, f.avoided(a.Leader.Broker)
	}
}

func leading(a topology.Assignment) partition.Member {
	return partition.Member{Broker: a.Leader.Broker, Replica: a.Leader.Replica}
}

// avoided tells whether a broker is to lead nothing.
func (f *Facts) avoided(id partition.NodeID) bool {
	b := f.Brokers[id]
	return b == nil || b.Draining || b.Leaving
}

// suspected tells whether a majority of the members does not reach a broker.
func (f *Facts) suspected(b *members.Broker, of []partition.Member) bool {
	if len(b.SuspectedBy) == 0 {
		return false
	}
	n := 0
	for _, m := range of {
		if slices.Contains(b.SuspectedBy, m.Broker) {
			n++
		}
	}
	return n > len(of)/2
}

// reachable tells whether a majority of those lives that a candidate must fence: without them another candidate is stuck as well.
func (f *Facts) reachable(a topology.Assignment) bool {
	live := 0
	for _, m := range a.Base.Members {
		if b := f.Brokers[m.Broker]; b != nil && b.Live {
			live++
		}
	}
	return live > len(a.Base.Members)/2
}

// Candidates are the members that can lead, as far as one sees from here.
func (f *Facts) Candidates(id partition.ID, a topology.Assignment) []topology.Leader {
	var fit []topology.Leader
	for _, m := range a.Members {
		b := f.Brokers[m.Broker]
		if b == nil || !b.Live || !b.Sound || f.Told.Lost(id, m) || f.suspected(b, a.Members) {
			continue
		}
		fit = append(fit, topology.Leader{Broker: m.Broker, Incarnation: b.Incarnation, Replica: m.Replica})
	}
	return fit
}
