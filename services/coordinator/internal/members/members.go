package members

import (
	"cmp"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Broker is what the coordinator knows of one.
type Broker struct {
	ID          partition.NodeID
	Incarnation partition.Incarnation
	Zone        string
	Address     string // of its data port, "" = not live
	Software    string // "" = not live
	Live        bool
	// Sound: it has a disk that takes new replicas.
	Sound bool
	// Leads and Replicas count partitions of topics that are not deleted.
	Leads    int
	Replicas int
}

// Of lists the brokers by id.
func Of(v *topology.View) []Broker {
	brokers := make([]Broker, 0, len(v.Brokers))
	for id, known := range v.Brokers {
		b := Broker{ID: id, Incarnation: known.Ident.Value.Incarnation, Zone: known.Ident.Value.Zone, Sound: sound(known.Ident.Value.Disks)}
		if incarnation, live := Incarnation(known); live {
			b.Live, b.Incarnation = true, incarnation
			b.Address, b.Software = known.Live.Value.Capnp, known.Live.Value.Software
		}
		brokers = append(brokers, b)
	}
	slices.SortFunc(brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	count(v, brokers)
	return brokers
}

// Live keeps the brokers that are.
func Live(brokers []Broker) []Broker {
	var live []Broker
	for _, b := range brokers {
		if b.Live {
			live = append(live, b)
		}
	}
	return live
}

// Incarnation gives the incarnation in which a broker lives, if it does.
func Incarnation(b topology.Broker) (partition.Incarnation, bool) {
	if b.Live == nil || b.Live.Value.Incarnation != b.Ident.Value.Incarnation {
		return 0, false
	}
	return b.Live.Value.Incarnation, true
}

func count(v *topology.View, brokers []Broker) {
	byID := make(map[partition.NodeID]*Broker, len(brokers))
	for i := range brokers {
		byID[brokers[i].ID] = &brokers[i]
	}
	for id, assignments := range v.Partitions {
		if topic, ok := v.Topics[id]; !ok || topic.Value.Deleted != nil {
			continue
		}
		for _, a := range assignments {
			if b := byID[a.Value.Leader.Broker]; b != nil {
				b.Leads++
			}
			for _, m := range a.Value.Members {
				if b := byID[m.Broker]; b != nil {
					b.Replicas++
				}
			}
		}
	}
}

// sound is true also where no disk is told.
func sound(disks []topology.Disk) bool {
	for _, d := range disks {
		if d.State == diskOK {
			return true
		}
	}
	return len(disks) == 0
}

// diskOK is the state of a topology.Disk that takes new replicas.
const diskOK = "ok"
