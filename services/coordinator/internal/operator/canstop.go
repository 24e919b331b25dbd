package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

// looksApart is the time between the two looks by which a replica is found to keep up.
const looksApart = 250 * time.Millisecond

// held is a partition that needs data of the broker in question.
type held struct {
	id partition.ID
	a  topology.Assignment
}

// CanStop tells whether a broker can be stopped now without a partition losing its majority, and why.
func (o *Operator) CanStop(ctx context.Context, id partition.NodeID) (safe bool, reason string, err error) {
	v, brokers, err := o.look()
	if err != nil {
		return false, "", err
	}
	b := brokers[id]
	if b == nil {
		return false, "", fault.Errorf(fault.NotFound, "there is no broker %d", id)
	}
	if !b.Live {
		return true, fmt.Sprintf("broker %d is not running", id), nil
	}
	partitions := heldBy(v, id)
	if len(partitions) == 0 {
		return true, fmt.Sprintf("broker %d holds no replica", id), nil
	}
	if reason := needed(v, partitions, brokers, id); reason != "" {
		return false, reason, nil
	}
	if reason := o.behind(ctx, v, partitions, brokers, id); reason != "" {
		return false, reason, nil
	}
	return true, fmt.Sprintf("each of the %d partitions with a replica on broker %d has a majority without it", len(partitions), id), nil
}

func heldBy(v *topology.View, id partition.NodeID) []held {
	var all []held
	for topic, assignments := range v.Partitions {
		if known, ok := v.Topics[topic]; !ok || known.Value.Deleted != nil {
			continue
		}
		for i, a := range assignments {
			if _, holds := members.Holders(a.Value)[id]; holds {
				all = append(all, held{partition.ID{Topic: topic, Index: partition.Index(i)}, a.Value}) //nolint:gosec // an index.
			}
		}
	}
	return all
}

// needed says which partition would not have a majority of live members without the broker; "" = none.
func needed(v *topology.View, all []held, brokers members.Index, id partition.NodeID) string {
	short := 0
	reason := ""
	for _, h := range all {
		able := 0
		for _, m := range h.a.Members {
			if b := brokers[m.Broker]; m.Broker != id && b != nil && b.Live && b.Sound && len(b.SuspectedBy) == 0 {
				able++
			}
		}
		switch {
		case able > len(h.a.Members)/2 && h.a.Status == topology.Active:
			continue
		case short > 0:
		case len(h.a.Members) == 1:
			reason = fmt.Sprintf("partition %s has its only replica there", label(v, h.id))
		case h.a.Status != topology.Active:
			reason = fmt.Sprintf("partition %s is electing a leader", label(v, h.id))
		default:
			reason = fmt.Sprintf("partition %s would have %d of %d members left", label(v, h.id), able, len(h.a.Members))
		}
		short++
	}
	if short > 1 {
		reason += fmt.Sprintf(", and %d more are like it", short-1)
	}
	return reason
}

// behind says which partition's other members have not caught up, so that acks would wait for them; "" = none.
func (o *Operator) behind(ctx context.Context, v *topology.View, all []held, brokers members.Index, id partition.NodeID) string {
	asked := map[partition.NodeID][]partition.ID{}
	for _, h := range all {
		for _, m := range h.a.Members {
			if b := brokers[m.Broker]; b != nil && b.Live {
				asked[m.Broker] = append(asked[m.Broker], h.id)
			}
		}
	}
	var questions []survey.Question
	for broker, ids := range asked {
		questions = append(questions, survey.Question{Broker: broker, Partitions: ids})
	}
	ctx, cancel := context.WithTimeout(ctx, 2*surveyTimeout)
	defer cancel()
	first, _ := o.cfg.Survey.Positions(ctx, questions)
	_ = backoff.Sleep(ctx, o.cfg.Clock, looksApart) // its end shows in what is not told
	second, failed := o.cfg.Survey.Positions(ctx, questions)
	for broker, err := range failed {
		return fmt.Sprintf("broker %d does not tell how far its replicas are: %v", broker, err)
	}
	for _, h := range all {
		var high partition.Offset
		for _, m := range h.a.Members {
			high = max(high, first[survey.Replica{Partition: h.id, ID: m.Replica}].HighWatermark)
		}
		caught := 0
		for _, m := range h.a.Members {
			at, known := second[survey.Replica{Partition: h.id, ID: m.Replica}]
			if known && m.Broker != id && !at.Faulty && at.End >= high {
				caught++
			}
		}
		if caught <= len(h.a.Members)/2 {
			return fmt.Sprintf("partition %s: %d of its %d members have caught up without broker %d", label(v, h.id), caught, len(h.a.Members), id)
		}
	}
	return ""
}

func label(v *topology.View, id partition.ID) string {
	return fmt.Sprintf("%s/%d", v.Topics[id.Topic].Value.FullName(), id.Index)
}
