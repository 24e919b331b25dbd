package nomination

import (
	"cmp"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

// Leads counts the partitions that each broker leads, while nominations are planned.
type Leads map[partition.NodeID]int

// Move notes that a leadership goes from one broker to another.
func (l Leads) Move(from, to partition.NodeID) {
	l[from]--
	l[to]++
}

// How much is known of a candidate, the best first.
const (
	told = iota
	silent
	faulty
)

// Choose gives the best candidate of a vacancy, or none where it is better to wait: a leader that serves is only replaced by one whose log is
// known and of the same epoch.
func (f *Facts) Choose(v Vacancy, at survey.Positions, leads Leads) (topology.Leader, bool) {
	type ranked struct {
		topology.Leader
		survey.Position

		class int
	}
	var all []ranked
	for _, c := range v.Candidates {
		position, known := at[survey.Replica{Partition: v.ID, ID: c.Replica}]
		r := ranked{c, position, told}
		switch {
		case !known:
			r.class = silent
		case position.Faulty:
			r.class = faulty
		}
		if v.Why.Planned() && (r.class != told || position.LastEpoch != v.Assignment.Value.Epoch) {
			continue
		}
		all = append(all, r)
	}
	if len(all) == 0 {
		return topology.Leader{}, false
	}
	best := slices.MinFunc(all, func(a, b ranked) int {
		return cmp.Or(
			cmp.Compare(a.class, b.class),
			cmp.Compare(order(f.avoided(a.Broker)), order(f.avoided(b.Broker))),
			cmp.Compare(b.LastEpoch, a.LastEpoch),
			cmp.Compare(b.End, a.End),
			// Where nobody told anything, the one that led before is the likeliest to have all.
			cmp.Compare(order(a.class == silent && a.Broker != v.Assignment.Value.Leader.Broker), order(b.class == silent && b.Broker != v.Assignment.Value.Leader.Broker)),
			cmp.Compare(leads[a.Broker], leads[b.Broker]),
			cmp.Compare(a.Broker, b.Broker),
		)
	})
	return best.Leader, true
}

func order(later bool) int {
	if later {
		return 1
	}
	return 0
}

// Ask gives what must be asked before the vacancies can be filled well: where there is a choice, or a leader that serves.
func Ask(vacancies []Vacancy) []survey.Question {
	byBroker := map[partition.NodeID][]partition.ID{}
	for _, v := range vacancies {
		if len(v.Candidates) < 2 && !v.Why.Planned() {
			continue
		}
		for _, c := range v.Candidates {
			byBroker[c.Broker] = append(byBroker[c.Broker], v.ID)
		}
	}
	questions := make([]survey.Question, 0, len(byBroker))
	for broker, ids := range byBroker {
		questions = append(questions, survey.Question{Broker: broker, Partitions: ids})
	}
	slices.SortFunc(questions, func(a, b survey.Question) int { return cmp.Compare(a.Broker, b.Broker) })
	return questions
}
