package operator

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/nomination"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

// Recover restarts a partition from the best replica that is left. Without accept it changes nothing and tells what would be; then Epoch and
// Lineage are zero.
func (o *Operator) Recover(ctx context.Context, name topology.Name, index uint32, accept bool) (topology.Recovery, error) {
	recovery, err := o.recover(ctx, name, index, accept)
	return recovery, fault.Wrap(fmt.Sprintf("recover %s/%d by force", name, index), err)
}

func (o *Operator) recover(ctx context.Context, name topology.Name, index uint32, accept bool) (topology.Recovery, error) {
	none := topology.Recovery{}
	v, brokers, err := o.look()
	if err != nil {
		return none, err
	}
	id, a, err := o.partition(ctx, name, index)
	if err != nil {
		return none, err
	}
	c := o.census(ctx, id, a.Value, brokers)
	r, err := c.verdict()
	if err != nil {
		return none, err
	}
	r.V, r.Topic, r.Name, r.Index, r.Time = topology.SchemaVersion, id.Topic, name, id.Index, o.cfg.Clock.Now().UTC()
	if !accept {
		return r, nil
	}
	r.Epoch, r.Lineage = max(a.Value.Epoch, c.promised)+1, o.cfg.NewUUID()
	next := a.Value
	survivors := []partition.Member{r.Survivor}
	if next.Status == topology.Active {
		next.Base.Epoch = next.Epoch
	}
	next.V, next.Epoch, next.Status, next.Lineage = topology.SchemaVersion, r.Epoch, topology.Electing, r.Lineage
	next.Members, next.Base.Members, next.Learners, next.Moving = survivors, survivors, nil, nil
	next.Leader = topology.Leader{Broker: r.Survivor.Broker, Incarnation: brokers[r.Survivor.Broker].Incarnation, Replica: r.Survivor.Replica}
	return r, o.writeRecovery(ctx, v, id, a.ModRevision, next, r)
}

// writeRecovery writes the assignment and its record in one Txn.
func (o *Operator) writeRecovery(ctx context.Context, v *topology.View, id partition.ID, revision int64, next topology.Assignment, r topology.Recovery) error {
	assigned, err := put(topology.PartitionKey(id), next)
	if err != nil {
		return err
	}
	record, err := put(topology.RecoveryKey(id, r.Epoch), r)
	if err != nil {
		return err
	}
	ok, err := o.write(ctx,
		[]topology.Compare{unchanged(assigned.Key, revision), unchanged(record.Key, 0), lives(v, r.Survivor.Broker)},
		[]topology.Op{assigned, record})
	if err != nil {
		return err
	}
	if !ok {
		return errRaced("write the recovery")
	}
	o.cfg.Log.Warn("recovered by force", "partition", id.String(), "epoch", uint64(r.Epoch), "node", uint64(r.Survivor.Broker),
		"lineage", r.Lineage.String(), "offset", uint64(r.End), "why", string(nomination.Recovery))
	return nil
}

// census is what is known of a partition's replicas.
type census struct {
	base     []topology.RecoveryMember
	others   []topology.RecoveryMember // members and learners that were not in the base
	promised partition.Epoch
}

// census asks every broker that has, or had, a replica.
func (o *Operator) census(ctx context.Context, id partition.ID, a topology.Assignment, brokers members.Index) census {
	var all []partition.Member
	for _, set := range [][]partition.Member{lastActive(a), a.Members, a.Learners} {
		for _, m := range set {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	var questions []survey.Question
	for _, m := range all {
		if b := brokers[m.Broker]; b != nil && b.Live && !slices.ContainsFunc(questions, func(q survey.Question) bool { return q.Broker == m.Broker }) {
			questions = append(questions, survey.Question{Broker: m.Broker, Partitions: []partition.ID{id}})
		}
	}
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	positions, failed := o.cfg.Survey.Positions(ctx, questions)
	told := o.told()
	c := census{}
	for i, m := range all {
		at, found := positions[survey.Replica{Partition: id, ID: m.Replica}]
		c.promised = max(c.promised, at.Promised)
		known := topology.RecoveryMember{
			Broker: m.Broker, Replica: m.Replica, Found: found, LastEpoch: at.LastEpoch, End: at.End, HighWatermark: at.HighWatermark, Faulty: at.Faulty,
		}
		if !found {
			known.Error = absent(brokers[m.Broker], failed[m.Broker], told.Lost(id, m))
		}
		if i < len(lastActive(a)) {
			c.base = append(c.base, known)
		} else {
			c.others = append(c.others, known)
		}
	}
	return c
}

// lastActive are the members of the last epoch that was: what they have in majority was acknowledged.
func lastActive(a topology.Assignment) []partition.Member {
	if a.Status == topology.Active {
		return a.Members
	}
	return a.Base.Members
}

func absent(b *members.Broker, failed error, lost bool) string {
	switch {
	case b == nil || !b.Live:
		return "its broker is down"
	case lost:
		return "its broker says that its data is lost"
	case failed != nil:
		return failed.Error()
	default:
		return "its broker has not got it"
	}
}

// verdict chooses the survivor, or says why nothing is to be recovered by force.
func (c census) verdict() (topology.Recovery, error) {
	sound, high := 0, partition.Offset(0)
	for _, m := range c.base {
		if m.Found && !m.Faulty {
			sound++
		}
	}
	if sound > len(c.base)/2 {
		return topology.Recovery{}, fault.Errorf(fault.Conflict,
			"%d of the %d last active members answer soundly, a majority: it needs no force, and nothing may be lost", sound, len(c.base))
	}
	var left []topology.RecoveryMember
	for _, m := range slices.Concat(c.base, c.others) {
		if m.Found {
			left = append(left, m)
			high = max(high, m.HighWatermark)
		}
	}
	if len(left) == 0 {
		return topology.Recovery{}, fault.Errorf(fault.Conflict,
			"none of its replicas is left: there is nothing to go on from. Bring a broker of %s back, or delete the topic", brokersOf(c.base))
	}
	best := slices.MaxFunc(left, func(a, b topology.RecoveryMember) int {
		return cmp.Or(cmp.Compare(order(!a.Faulty), order(!b.Faulty)), cmp.Compare(a.LastEpoch, b.LastEpoch), cmp.Compare(a.End, b.End), cmp.Compare(b.Broker, a.Broker))
	})
	return topology.Recovery{
		Survivor: partition.Member{Broker: best.Broker, Replica: best.Replica}, LastEpoch: best.LastEpoch, End: best.End,
		HighWatermark: high, Members: slices.Concat(c.base, c.others), Loss: loss(c, best, high),
	}, nil
}

// loss says in words what is given up.
func loss(c census, best topology.RecoveryMember, high partition.Offset) string {
	var gone []string
	for _, m := range c.base {
		if !m.Found || m.Faulty {
			gone = append(gone, fmt.Sprintf("%d", m.Broker))
		}
	}
	text := fmt.Sprintf("%d of %d last active members are gone (brokers %s). The partition goes on from broker %d at offset %d: ",
		len(gone), len(c.base), strings.Join(gone, ", "), best.Broker, best.End)
	switch {
	case high > best.End:
		text += fmt.Sprintf("the %d acknowledged records from %d to %d are lost, and whatever was acknowledged behind them. ", high-best.End, best.End, high)
	default:
		text += fmt.Sprintf("every record that was acknowledged at %d or behind it is lost; how many that were, nobody is left to tell. ", best.End)
	}
	if best.Faulty {
		text += "The survivor's own log is damaged: what it cannot read is lost too. "
	}
	return text + "Stop the gone brokers for good first: one that still runs, cut off from etcd, may go on acknowledging what is then lost."
}

func brokersOf(all []topology.RecoveryMember) string {
	ids := make([]string, len(all))
	for i, m := range all {
		ids[i] = fmt.Sprintf("%d", m.Broker)
	}
	return strings.Join(ids, ", ")
}

func order(b bool) int {
	if b {
		return 1
	}
	return 0
}
