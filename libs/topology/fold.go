package topology

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

// partitionsMax bounds the index of a partition's key.
const partitionsMax = 1 << 16

func emptyView() *View {
	return &View{
		Namespaces: map[string]Versioned[Namespace]{},
		Names:      map[Name]partition.UUID{},
		Topics:     map[partition.UUID]Versioned[Topic]{},
		Partitions: map[partition.UUID][]Versioned[Assignment]{},
		Brokers:    map[partition.NodeID]Broker{},
		Gateways:   map[string]Live{},
		Tierers:    map[string]Live{},
		Recoveries: map[string]Recovery{},
	}
}

// fold makes the next View of one that others are reading: it copies a map before it first writes into it, and of the partitions' slices
// only those of the topics that change.
type fold struct {
	view    View
	changed bool
	copied  struct{ namespaces, names, topics, partitions, brokers, gateways, tierers, recoveries bool }
	slices  map[partition.UUID]struct{} // whose slice is a copy
	work    int                         // entries that were copied
}

func newFold(view *View) *fold {
	return &fold{view: *view, slices: map[partition.UUID]struct{}{}}
}

// writable gives a map that the fold may write into.
func writable[K comparable, V any](f *fold, m *map[K]V, copied *bool) map[K]V {
	if !*copied {
		*m, *copied = maps.Clone(*m), true
		f.work += len(*m)
	}
	return *m
}

// put takes a key's value in; followed tells whether it is of a kind that a View has. On an error the View keeps what it had.
func (f *fold) put(kv KV) (followed bool, err error) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(kv.Key, Root), "/")
	switch kind {
	case "cluster":
		return true, set(kv, func(v Versioned[Cluster]) error { f.view.Cluster = v; return nil })
	case "coord":
		return true, set(kv, func(v Versioned[Live]) error { f.view.Coordinator = &v; return nil })
	case "namespaces":
		return true, set(kv, func(v Versioned[Namespace]) error {
			writable(f, &f.view.Namespaces, &f.copied.namespaces)[rest] = v
			return nil
		})
	case "names":
		return true, set(kv, func(v Versioned[TopicRef]) error {
			name, err := parseName(rest)
			if err == nil {
				writable(f, &f.view.Names, &f.copied.names)[name] = v.Value.ID
			}
			return err
		})
	case "topics":
		return true, set(kv, func(v Versioned[Topic]) error {
			id, err := partition.ParseUUID(rest)
			if err == nil {
				writable(f, &f.view.Topics, &f.copied.topics)[id] = v
			}
			return err //nolint:wrapcheck // names the key's part.
		})
	case "p":
		return true, set(kv, func(v Versioned[Assignment]) error { return f.setPartition(rest, v) })
	case "brokers":
		return true, f.putBroker(rest, kv)
	case "gateways":
		return true, set(kv, func(v Versioned[Live]) error {
			writable(f, &f.view.Gateways, &f.copied.gateways)[strings.TrimSuffix(rest, "/live")] = v.Value
			return nil
		})
	case "tierers":
		return true, set(kv, func(v Versioned[Live]) error {
			writable(f, &f.view.Tierers, &f.copied.tierers)[strings.TrimSuffix(rest, "/live")] = v.Value
			return nil
		})
	case "recoveries":
		return true, set(kv, func(v Versioned[Recovery]) error {
			writable(f, &f.view.Recoveries, &f.copied.recoveries)[rest] = v.Value
			return nil
		})
	default: // requests, pid, tier
		return false, nil
	}
}

func (f *fold) putBroker(rest string, kv KV) error {
	id, part, err := parseBroker(rest)
	if err != nil {
		return err
	}
	broker := f.view.Brokers[id]
	switch part {
	case "ident":
		err = set(kv, func(v Versioned[BrokerIdent]) error { broker.Ident = v; return nil })
	case "live":
		err = set(kv, func(v Versioned[Live]) error { broker.Live = &v; return nil })
	case "orders":
		err = set(kv, func(v Versioned[BrokerOrders]) error { broker.Orders = v; return nil })
	default:
		return fault.Errorf(fault.Invalid, "unknown part %q of a broker", part)
	}
	if err == nil {
		writable(f, &f.view.Brokers, &f.copied.brokers)[id] = broker
	}
	return err
}

// drop takes a key out.
func (f *fold) drop(key string) {
	kind, rest, _ := strings.Cut(strings.TrimPrefix(key, Root), "/")
	switch kind {
	case "cluster":
		f.view.Cluster = Versioned[Cluster]{}
	case "coord":
		f.view.Coordinator = nil
	case "namespaces":
		delete(writable(f, &f.view.Namespaces, &f.copied.namespaces), rest)
	case "names":
		if name, err := parseName(rest); err == nil {
			delete(writable(f, &f.view.Names, &f.copied.names), name)
		}
	case "topics":
		if id, err := partition.ParseUUID(rest); err == nil {
			delete(writable(f, &f.view.Topics, &f.copied.topics), id)
		}
	case "p":
		_ = f.setPartition(rest, Versioned[Assignment]{}) // a key that does not parse was never taken in
	case "brokers":
		f.dropBroker(rest)
	case "gateways":
		delete(writable(f, &f.view.Gateways, &f.copied.gateways), strings.TrimSuffix(rest, "/live"))
	case "tierers":
		delete(writable(f, &f.view.Tierers, &f.copied.tierers), strings.TrimSuffix(rest, "/live"))
	case "recoveries":
		delete(writable(f, &f.view.Recoveries, &f.copied.recoveries), rest)
	}
}

func (f *fold) dropBroker(rest string) {
	id, part, err := parseBroker(rest)
	if err != nil {
		return
	}
	broker := f.view.Brokers[id]
	switch part {
	case "live":
		broker.Live = nil
	case "orders":
		broker.Orders = Versioned[BrokerOrders]{}
	default:
		broker.Ident = Versioned[BrokerIdent]{}
	}
	all := writable(f, &f.view.Brokers, &f.copied.brokers)
	all[id] = broker
	if broker.Live == nil && broker.Ident.ModRevision == 0 && broker.Orders.ModRevision == 0 {
		delete(all, id)
	}
}

// setPartition puts an assignment, or with ModRevision 0 takes it out.
func (f *fold) setPartition(rest string, v Versioned[Assignment]) error {
	topicText, indexText, _ := strings.Cut(rest, "/")
	topic, err := partition.ParseUUID(topicText)
	if err != nil {
		return err //nolint:wrapcheck // names the key's part.
	}
	index, err := strconv.ParseUint(indexText, 10, 32)
	if err != nil || index >= partitionsMax {
		return fault.Errorf(fault.Invalid, "partition index %q is not 0 to %d", indexText, partitionsMax-1)
	}
	all := writable(f, &f.view.Partitions, &f.copied.partitions)
	list := all[topic]
	if _, mine := f.slices[topic]; !mine {
		list = slices.Clone(list)
		f.work += len(list)
		f.slices[topic] = struct{}{}
	}
	for uint64(len(list)) <= index {
		list = append(list, Versioned[Assignment]{})
	}
	list[index] = v
	for len(list) > 0 && list[len(list)-1].ModRevision == 0 {
		list = list[:len(list)-1]
	}
	if len(list) == 0 {
		delete(all, topic)
		return nil
	}
	all[topic] = list
	return nil
}

// set decodes a value and hands it on with its revisions.
func set[T any](kv KV, put func(Versioned[T]) error) error {
	value, err := Decode[T](kv.Value)
	if err != nil {
		return err
	}
	return put(Versioned[T]{Value: value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision})
}

func parseName(rest string) (Name, error) {
	namespace, topic, ok := strings.Cut(rest, "/")
	if !ok || namespace == "" || topic == "" {
		return Name{}, fault.Errorf(fault.Invalid, "topic name key %q is not <namespace>/<topic>", rest)
	}
	return Name{Namespace: namespace, Topic: topic}, nil
}

func parseBroker(rest string) (partition.NodeID, string, error) {
	idText, part, _ := strings.Cut(rest, "/")
	id, err := strconv.ParseUint(idText, 10, 64)
	if err != nil || id == 0 {
		return 0, "", fault.Errorf(fault.Invalid, "broker id %q is not a number from 1", idText)
	}
	return partition.NodeID(id), part, nil
}
