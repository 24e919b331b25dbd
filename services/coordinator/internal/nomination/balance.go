package nomination

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

const (
	// balanceAtOnce is how many leaderships move for balance's sake at a time.
	balanceAtOnce = 10
	// balanceSlack is the part of the mean that a broker may lead more than it.
	balanceSlack = 10
)

// Partition is one as it is.
type Partition struct {
	ID         partition.ID
	Assignment topology.Versioned[topology.Assignment]
}

// Uneven gives a few partitions whose leadership should go to a member that leads fewer, if the brokers' loads differ enough to disturb anybody.
// leads is what it would be afterwards.
func (f *Facts) Uneven(all []Partition, leads Leads) []Vacancy {
	total, able := 0, 0
	for id := range f.Brokers {
		if b := f.Brokers[id]; b.Live && !f.avoided(id) {
			total += leads[id]
			able++
		}
	}
	if able < 2 {
		return nil
	}
	mean := (total + able - 1) / able
	most := mean + max(1, mean/balanceSlack)
	var uneven []Vacancy
	for _, p := range all {
		a := p.Assignment.Value
		from := a.Leader.Broker
		if len(a.Members) < 2 || leads[from] <= most || a.Status != topology.Active || a.Moving != nil || f.Holds.Held(p.ID, f.Now) {
			continue
		}
		v := Vacancy{ID: p.ID, Assignment: p.Assignment, Why: Balance}
		for _, c := range f.Candidates(p.ID, a) {
			if c.Broker != from && !f.avoided(c.Broker) && leads[c.Broker] < mean {
				v.Candidates = append(v.Candidates, c)
			}
		}
		if len(v.Candidates) == 0 {
			continue
		}
		leads.Move(from, v.Candidates[0].Broker)
		if uneven = append(uneven, v); len(uneven) == balanceAtOnce {
			break
		}
	}
	return uneven
}
