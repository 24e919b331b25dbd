package operator

import (
	"context"
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

// Drain moves the leaders away from a broker and keeps them away, or ends that.
func (o *Operator) Drain(ctx context.Context, id partition.NodeID, drain bool) error {
	return fault.Wrap(fmt.Sprintf("drain broker %d", id), o.order(ctx, id, func(v *topology.View, to *topology.BrokerOrders) error {
		if drain && !o.others(v, id) {
			return fault.Errorf(fault.Conflict, "no other broker is live that could lead instead")
		}
		to.Drain = drain
		return nil
	}))
}

// others tells whether another broker could lead.
func (o *Operator) others(v *topology.View, id partition.NodeID) bool {
	for _, b := range members.Of(v, o.told()) {
		if b.ID != id && b.Live && !b.Draining && !b.Leaving {
			return true
		}
	}
	return false
}

// Decommission moves all replicas away from a broker. With validateOnly it only tells whether that can be.
func (o *Operator) Decommission(ctx context.Context, id partition.NodeID, validateOnly bool) error {
	return fault.Wrap(fmt.Sprintf("decommission broker %d", id), o.order(ctx, id, func(v *topology.View, to *topology.BrokerOrders) error {
		if to.Decommission != nil {
			return nil
		}
		brokers := members.Of(v, o.told())
		if err := roomWithout(v, brokers, id); err != nil {
			return err
		}
		if validateOnly {
			return nil
		}
		to.Decommission = &topology.Decommission{Since: o.cfg.Clock.Now().UTC(), Replicas: members.ByID(brokers)[id].Replicas}
		return nil
	}))
}

// Recommission ends a decommission. What has moved stays where it is.
func (o *Operator) Recommission(ctx context.Context, id partition.NodeID) error {
	return fault.Wrap(fmt.Sprintf("recommission broker %d", id), o.order(ctx, id, func(_ *topology.View, to *topology.BrokerOrders) error {
		to.Decommission = nil
		return nil
	}))
}

// roomWithout refuses where the other brokers are too few for what a broker holds.
func roomWithout(v *topology.View, brokers []members.Broker, id partition.NodeID) error {
	able := 0
	for _, b := range brokers {
		if b.ID != id && b.Takes() {
			able++
		}
	}
	for topic, assignments := range v.Partitions {
		settings, ok := v.Topics[topic]
		if !ok || settings.Value.Deleted != nil || int(settings.Value.ReplicationFactor) <= able {
			continue
		}
		for _, a := range assignments {
			if _, holds := a.Value.ReplicaOn(id); holds {
				return fault.Errorf(fault.Conflict,
					"topic %s asks for %d replicas and %d other brokers take replicas: add a broker, or lower its replication factor first",
					settings.Value.FullName(), settings.Value.ReplicationFactor, able)
			}
		}
	}
	return nil
}

// order changes what is asked of a broker.
func (o *Operator) order(ctx context.Context, id partition.NodeID, change func(*topology.View, *topology.BrokerOrders) error) error {
	for range triesMax {
		v, brokers, err := o.look()
		if err != nil {
			return err
		}
		if brokers[id] == nil {
			return fault.Errorf(fault.NotFound, "there is no broker %d", id)
		}
		key := topology.BrokerOrdersKey(id)
		kv, have, _, err := o.cfg.Store.Get(ctx, key)
		if err != nil {
			return err //nolint:wrapcheck // says what was attempted.
		}
		orders := topology.BrokerOrders{V: topology.SchemaVersion}
		if have {
			if orders, err = topology.Decode[topology.BrokerOrders](kv.Value); err != nil {
				return err //nolint:wrapcheck // names the type.
			}
		}
		was := orders
		if err := change(v, &orders); err != nil {
			return err
		}
		if orders == was {
			return nil
		}
		op, err := put(key, orders)
		if err != nil {
			return err
		}
		if done, err := o.write(ctx, []topology.Compare{unchanged(key, kv.ModRevision)}, []topology.Op{op}); done || err != nil {
			return err
		}
	}
	return errRaced("write orders")
}
