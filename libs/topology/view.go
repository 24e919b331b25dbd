package topology

import (
	"github.com/seedqueue/sq/libs/partition"
)

// View is the cluster's metadata as of one revision. It is immutable: readers do not write into its maps and slices.
type View struct {
	Revision    int64
	Cluster     Versioned[Cluster] // ModRevision 0 = not bootstrapped
	Coordinator *Versioned[Live]   // nil = none
	Namespaces  map[string]Versioned[Namespace]
	Names       map[Name]partition.UUID
	Topics      map[partition.UUID]Versioned[Topic]
	Partitions  map[partition.UUID][]Versioned[Assignment] // by index; ModRevision 0 = missing
	Brokers     map[partition.NodeID]Broker
	Gateways    map[string]Live
	Tierers     map[string]Live
	Recoveries  map[string]Recovery // by the rest of their key; all there ever were
}

// Versioned is a value with the revisions its guards compare.
type Versioned[T any] struct {
	Value          T
	CreateRevision int64
	ModRevision    int64
}

// Broker is what is known of a broker.
type Broker struct {
	Ident Versioned[BrokerIdent]
	Live  *Versioned[Live] // nil = not there
	// Orders of operators; ModRevision 0 = none.
	Orders Versioned[BrokerOrders]
}

// Topic finds a topic by name.
func (v *View) Topic(name Name) (Versioned[Topic], bool) {
	id, ok := v.Names[name]
	if !ok {
		return Versioned[Topic]{}, false
	}
	topic, ok := v.Topics[id]
	return topic, ok
}

// Partition finds a partition's assignment.
func (v *View) Partition(id partition.ID) (Versioned[Assignment], bool) {
	all := v.Partitions[id.Topic]
	if int(id.Index) >= len(all) || all[id.Index].ModRevision == 0 {
		return Versioned[Assignment]{}, false
	}
	return all[id.Index], true
}
