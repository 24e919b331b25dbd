package reconcile

import (
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

// Totals are how the partitions are.
type Totals struct {
	Partitions      int
	WithoutLeader   int // nobody serves
	UnderReplicated int // fewer members live than the topic asks for
	MovesStarted    int
	MovesWaiting    int
}

func totals(r *Round) Totals {
	return Count(r.view, r.facts.Brokers)
}

// Count counts the partitions of a View.
func Count(v *topology.View, brokers members.Index) Totals {
	var t Totals
	for _, p := range partitionsOf(v) {
		a := p.Assignment.Value
		t.Partitions++
		leader := brokers[a.Leader.Broker]
		if a.Status != topology.Active || leader == nil || !leader.Live || leader.Incarnation != a.Leader.Incarnation {
			t.WithoutLeader++
		}
		live := 0
		for _, m := range a.Members {
			if b := brokers[m.Broker]; b != nil && b.Live {
				live++
			}
		}
		if live < p.Factor {
			t.UnderReplicated++
		}
		switch {
		case a.Moving == nil:
		case a.Started():
			t.MovesStarted++
		default:
			t.MovesWaiting++
		}
	}
	return t
}
