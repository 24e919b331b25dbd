package moves

import (
	"cmp"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

// target gives the members that a partition should have, if that is another set and can be had.
func (f *Facts) target(p Partition) ([]partition.Member, bool) {
	a := p.Assignment.Value
	keep, bad := f.split(p)
	if len(keep) > p.Factor {
		return f.shrink(keep, a.Leader.Broker, p.Factor), true
	}
	need := p.Factor - len(keep)
	target := slices.Clone(keep)
	for _, m := range bad { // a replaced disk comes back where it was
		if b := f.Brokers[m.Broker]; need > 0 && f.judge(p.ID, m) == lost && b.Takes() {
			target = append(target, partition.Member{Broker: m.Broker, Replica: f.NewUUID()})
			need--
		}
	}
	for need > 0 {
		b := f.place(target, bad)
		if b == nil {
			break
		}
		target = append(target, partition.Member{Broker: b.ID, Replica: f.NewUUID()})
		b.Replicas++
		need--
	}
	for _, m := range bad { // the least bad first
		if need > 0 && !on(target, m.Broker) {
			target = append(target, m)
			need--
		}
	}
	if len(target) != p.Factor && len(target) != len(a.Members) || same(target, a.Members) || !f.carried(target) {
		return nil, false
	}
	return target, true
}

// split tells the members that can stay from those that should go, the least bad of these first.
func (f *Facts) split(p Partition) (keep, bad []partition.Member) {
	for _, m := range p.Assignment.Value.Members {
		if f.judge(p.ID, m) == fine {
			keep = append(keep, m)
		} else {
			bad = append(bad, m)
		}
	}
	slices.SortStableFunc(bad, func(a, b partition.Member) int { return cmp.Compare(f.judge(p.ID, a), f.judge(p.ID, b)) })
	return keep, bad
}

// place gives the broker for one more replica, or nil.
func (f *Facts) place(target, bad []partition.Member) *members.Broker {
	var best *members.Broker
	inZone := map[string]int{}
	for _, m := range target {
		if b := f.Brokers[m.Broker]; b != nil {
			inZone[b.Zone]++
		}
	}
	for _, b := range f.Brokers {
		if !b.Takes() || on(target, b.ID) || on(bad, b.ID) {
			continue
		}
		if best == nil || cmp.Or(
			cmp.Compare(inZone[b.Zone], inZone[best.Zone]), cmp.Compare(b.Replicas, best.Replicas), cmp.Compare(b.ID, best.ID),
		) < 0 {
			best = b
		}
	}
	return best
}

// shrink leaves as many as are asked for: those go first whose zone has most, then those whose broker does. The leader stays.
func (f *Facts) shrink(keep []partition.Member, leader partition.NodeID, to int) []partition.Member {
	left := slices.Clone(keep)
	for len(left) > to {
		inZone := map[string]int{}
		for _, m := range left {
			inZone[f.Brokers[m.Broker].Zone]++
		}
		worst := slices.MaxFunc(left, func(a, b partition.Member) int {
			x, y := f.Brokers[a.Broker], f.Brokers[b.Broker]
			return cmp.Or(
				cmp.Compare(not(a.Broker == leader), not(b.Broker == leader)), cmp.Compare(not(x.Live), not(y.Live)),
				cmp.Compare(inZone[x.Zone], inZone[y.Zone]), cmp.Compare(x.Replicas, y.Replicas), cmp.Compare(x.ID, y.ID),
			)
		})
		left = slices.DeleteFunc(left, func(m partition.Member) bool { return m == worst })
		f.Brokers[worst.Broker].Replicas--
	}
	return left
}

// carried tells whether a majority of a set lives.
func (f *Facts) carried(set []partition.Member) bool {
	live := 0
	for _, m := range set {
		if b := f.Brokers[m.Broker]; b != nil && b.Live {
			live++
		}
	}
	return live > len(set)/2
}

func on(set []partition.Member, broker partition.NodeID) bool {
	return slices.ContainsFunc(set, func(m partition.Member) bool { return m.Broker == broker })
}

func same(a, b []partition.Member) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(m partition.Member) bool { return !slices.Contains(b, m) })
}

func not(b bool) int {
	if b {
		return 0
	}
	return 1
}
