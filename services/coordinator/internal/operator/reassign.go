package operator

import (
	"context"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

// Reassign asks for other members.
type Reassign struct {
	Topic     topology.Name
	Partition *uint32 // nil = all
	// One of these three.
	Brokers []partition.NodeID
	Factor  uint32
	Cancel  bool
	// ValidateOnly plans and does not write.
	ValidateOnly bool
}

// Move is a change of members that is planned, or would be.
type Move struct {
	ID         partition.ID
	Assignment topology.Assignment // with its plan
}

// Reassign plans other members. It answers when the plans are written.
func (o *Operator) Reassign(ctx context.Context, ask Reassign) ([]Move, error) {
	planned, err := o.reassign(ctx, ask)
	return planned, fault.Wrap("reassign "+ask.Topic.String(), err)
}

func (o *Operator) reassign(ctx context.Context, ask Reassign) ([]Move, error) {
	ways := 0
	for _, way := range []bool{len(ask.Brokers) > 0, ask.Factor != 0, ask.Cancel} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return nil, fault.Errorf(fault.Invalid, "name one of brokers, replicationFactor and cancel")
	}
	if ask.Factor != 0 {
		if ask.Partition != nil {
			return nil, fault.Errorf(fault.Invalid, "replicationFactor: it is the whole topic's: name no partition")
		}
		return nil, o.factor(ctx, ask.Topic, ask.Factor, ask.ValidateOnly)
	}
	topic, err := o.checked(ctx, ask)
	if err != nil {
		return nil, err
	}
	if n := uint32(len(ask.Brokers)); n != 0 && n != topic.ReplicationFactor { //nolint:gosec // at most 5.
		// First what the topic asks for: else reconcile would undo the plans.
		if err := o.factor(ctx, ask.Topic, n, ask.ValidateOnly); err != nil {
			return nil, err
		}
	}
	return o.planAll(ctx, topic, ask)
}

func (o *Operator) factor(ctx context.Context, name topology.Name, factor uint32, validateOnly bool) error {
	_, err := o.cfg.Catalog.AlterTopic(ctx, catalog.AlterTopic{Name: name, ValidateOnly: validateOnly, Change: func(t *topology.Topic) error {
		t.ReplicationFactor = factor
		return nil
	}})
	return err //nolint:wrapcheck // catalog says it all.
}

// checked refuses what cannot be carried out.
func (o *Operator) checked(ctx context.Context, ask Reassign) (topology.Topic, error) {
	_, brokers, err := o.look()
	if err != nil {
		return topology.Topic{}, err
	}
	topic, _, err := o.cfg.Catalog.Topic(ctx, ask.Topic)
	if err != nil {
		return topology.Topic{}, err //nolint:wrapcheck // catalog says it all.
	}
	t := topic.Value
	if ask.Partition != nil && *ask.Partition >= t.Partitions {
		return t, fault.Errorf(fault.Invalid, "partition: topic %s has partitions 0 to %d, not %d", ask.Topic, t.Partitions-1, *ask.Partition)
	}
	if ask.Cancel {
		return t, nil
	}
	n := uint32(len(ask.Brokers)) //nolint:gosec // checked right here.
	switch {
	case n != 1 && n != 3 && n != 5:
		return t, fault.Errorf(fault.Invalid, "brokers: %d of them are not legal: name 1, 3 or 5", n)
	case ask.Partition != nil && n != t.ReplicationFactor:
		return t, fault.Errorf(fault.Invalid, "brokers: the topic asks for %d replicas, not %d: reassign all its partitions to change that", t.ReplicationFactor, n)
	}
	for i, id := range ask.Brokers {
		if err := fit(brokers[id], id, slices.Contains(ask.Brokers[:i], id)); err != nil {
			return t, err
		}
	}
	return t, nil
}

// fit refuses a broker that cannot get replicas.
func fit(b *members.Broker, id partition.NodeID, twice bool) error {
	switch {
	case twice:
		return fault.Errorf(fault.Invalid, "brokers: %d is named twice", id)
	case b == nil:
		return fault.Errorf(fault.Invalid, "brokers: there is no broker %d", id)
	case !b.Live:
		return fault.Errorf(fault.Conflict, "brokers: %d is not live", id)
	case !b.Takes():
		return fault.Errorf(fault.Conflict, "brokers: %d takes no replicas: it is being decommissioned, or its disk is full or not sound", id)
	default:
		return nil
	}
}

// planAll plans partition after partition, some in a Txn; a race is run again.
func (o *Operator) planAll(ctx context.Context, topic topology.Topic, ask Reassign) ([]Move, error) {
	op := "plan members"
	for range triesMax {
		v, _, err := o.look()
		if err != nil {
			return nil, err
		}
		planned, changes, err := o.plans(v, topic, ask)
		if err != nil {
			return nil, err
		}
		if ask.ValidateOnly {
			return planned, nil
		}
		raced := false
		for part := range slices.Chunk(changes, partitionsPerTxn) {
			ok, err := o.writePlans(ctx, part)
			if err != nil {
				return nil, err
			}
			raced = raced || !ok
		}
		if !raced {
			return planned, nil
		}
	}
	return nil, errRaced(op)
}

// plan is one assignment to write.
type plan struct {
	Move

	revision int64
}

// plans gives all changes that are asked for, and those that are not written yet.
func (o *Operator) plans(v *topology.View, topic topology.Topic, ask Reassign) (all []Move, missing []plan, err error) {
	told := o.told()
	for i, a := range v.Partitions[topic.ID] {
		if ask.Partition != nil && uint32(i) != *ask.Partition || a.ModRevision == 0 { //nolint:gosec // an index.
			continue
		}
		id := partition.ID{Topic: topic.ID, Index: partition.Index(i)} //nolint:gosec // an index.
		var next topology.Assignment
		switch moving := a.Value.Moving; {
		case ask.Cancel:
			if moving == nil {
				continue
			}
			next = a.Value.Stay()
			all = append(all, Move{id, a.Value})
		case moving != nil && moving.Why == topology.MoveReassign && onThese(moving.Members, ask.Brokers):
			all = append(all, Move{id, a.Value})
			continue
		case moving == nil && onThese(a.Value.Members, ask.Brokers):
			continue
		default:
			target := o.on(a.Value, ask.Brokers, func(m partition.Member) bool { return told.Lost(id, m) })
			next = a.Value.Plan(topology.Moving{Members: target, Why: topology.MoveReassign, Planned: o.cfg.Clock.Now().UTC()})
			all = append(all, Move{id, next})
		}
		if a.Value.Status != topology.Active {
			return nil, nil, fault.Errorf(fault.Unavailable, "partition %d is electing a leader: repeat it in a moment", i)
		}
		missing = append(missing, plan{Move{id, next}, a.ModRevision})
	}
	return all, missing, nil
}

// on gives a member set on these brokers: members that are there stay, the others are new.
func (o *Operator) on(a topology.Assignment, brokers []partition.NodeID, lost func(partition.Member) bool) []partition.Member {
	target := make([]partition.Member, len(brokers))
	for i, id := range brokers {
		target[i] = partition.Member{Broker: id}
		for _, m := range a.Members {
			if m.Broker == id && !lost(m) {
				target[i] = m
			}
		}
		if target[i].Replica.IsZero() {
			target[i].Replica = o.cfg.NewUUID()
		}
	}
	return target
}

func onThese(set []partition.Member, brokers []partition.NodeID) bool {
	return len(set) == len(brokers) && !slices.ContainsFunc(set, func(m partition.Member) bool { return !slices.Contains(brokers, m.Broker) })
}

// writePlans writes some in one Txn, and where that fails each alone.
func (o *Operator) writePlans(ctx context.Context, plans []plan) (bool, error) {
	var compares []topology.Compare
	var ops []topology.Op
	for _, p := range plans {
		op, err := put(topology.PartitionKey(p.ID), p.Assignment)
		if err != nil {
			return false, err
		}
		ops, compares = append(ops, op), append(compares, unchanged(op.Key, p.revision))
	}
	ok, err := o.write(ctx, compares, ops)
	if ok || err != nil || len(plans) == 1 {
		return ok, err
	}
	all := true
	for i := range plans {
		one, err := o.writePlans(ctx, plans[i:i+1])
		if err != nil {
			return false, err
		}
		all = all && one
	}
	return all, nil
}

// Moves lists the changes of members under way and those that wait, by partition.
func Moves(v *topology.View) []Move {
	var all []Move
	for topic, assignments := range v.Partitions {
		if known, ok := v.Topics[topic]; !ok || known.Value.Deleted != nil {
			continue
		}
		for i, a := range assignments {
			if a.Value.Moving != nil {
				all = append(all, Move{partition.ID{Topic: topic, Index: partition.Index(i)}, a.Value}) //nolint:gosec // an index.
			}
		}
	}
	slices.SortFunc(all, func(a, b Move) int {
		if order := slices.Compare(a.ID.Topic[:], b.ID.Topic[:]); order != 0 {
			return order
		}
		return int(a.ID.Index) - int(b.ID.Index)
	})
	return all
}
