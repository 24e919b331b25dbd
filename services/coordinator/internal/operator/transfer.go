package operator

import (
	"context"
	"fmt"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/nomination"
)

// Transfer hands the leadership of a partition to a member on a broker, or with 0 to the best one.
func (o *Operator) Transfer(ctx context.Context, name topology.Name, index uint32, to partition.NodeID) (topology.Assignment, error) {
	op := fmt.Sprintf("transfer the leadership of %s/%d", name, index)
	for range triesMax {
		a, done, err := o.transferOnce(ctx, name, index, to)
		if done || err != nil {
			return a, fault.Wrap(op, err)
		}
	}
	return topology.Assignment{}, errRaced(op)
}

func (o *Operator) transferOnce(ctx context.Context, name topology.Name, index uint32, to partition.NodeID) (topology.Assignment, bool, error) {
	v, brokers, err := o.look()
	if err != nil {
		return topology.Assignment{}, false, err
	}
	id, a, err := o.partition(ctx, name, index)
	if err != nil {
		return topology.Assignment{}, false, err
	}
	if to != 0 && a.Value.Leader.Broker == to {
		return a.Value, true, nil
	}
	if a.Value.Status != topology.Active {
		return a.Value, false, fault.Errorf(fault.Unavailable, "it is electing a leader: try again in a moment")
	}
	leads := nomination.Leads{}
	for _, b := range brokers {
		leads[b.ID] = b.Leads
	}
	facts := nomination.Facts{Brokers: brokers, Told: o.told(), Holds: nomination.NewHolds(), Now: o.cfg.Clock.Now()}
	vacancy := nomination.Vacancy{ID: id, Assignment: a, Why: nomination.Transfer, Candidates: facts.Candidates(id, a.Value)}
	vacancy.Candidates = slices.DeleteFunc(vacancy.Candidates, func(c topology.Leader) bool {
		return c == a.Value.Leader || (to != 0 && c.Broker != to)
	})
	if len(vacancy.Candidates) == 0 {
		return a.Value, false, fault.Errorf(fault.Conflict, "%s", noCandidate(a.Value, to))
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	positions, failed := o.cfg.Survey.Positions(ctx, nomination.Ask([]nomination.Vacancy{vacancy}))
	leader, ok := facts.Choose(vacancy, positions, leads)
	if !ok {
		for broker, err := range failed {
			return a.Value, false, fault.Errorf(fault.Unavailable, "broker %d does not tell how far its replica is: %w", broker, err)
		}
		return a.Value, false, fault.Errorf(fault.Conflict, "no other member has caught up: try again in a moment")
	}
	next := a.Value.Nominate(leader, a.Value.Members)
	done, err := o.writePartition(ctx, id, a.ModRevision, next, lives(v, leader.Broker))
	if err == nil && done {
		o.cfg.Log.Info("nominated leader", "partition", id.String(), "epoch", uint64(next.Epoch), "node", uint64(leader.Broker),
			"incarnation", uint64(leader.Incarnation), "why", string(nomination.Transfer))
	}
	return next, done, err
}

func noCandidate(a topology.Assignment, to partition.NodeID) string {
	ids := make([]partition.NodeID, len(a.Members))
	for i, m := range a.Members {
		ids[i] = m.Broker
	}
	if to == 0 {
		return fmt.Sprintf("no other member of %v can lead", ids)
	}
	if !slices.Contains(ids, to) {
		return fmt.Sprintf("broker %d is no member: members are %v", to, ids)
	}
	return fmt.Sprintf("broker %d cannot lead now: it is down, suspected or without its data", to)
}
