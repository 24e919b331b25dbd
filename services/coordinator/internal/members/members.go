package members

import (
	"cmp"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
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
	// Draining: its leaders go elsewhere, by an operator's order or its own word.
	Draining bool
	// Leaving: its replicas go elsewhere.
	Leaving bool
	// Full: a disk of it takes no new replicas.
	Full bool
	// SuspectedBy are live brokers that do not reach its process.
	SuspectedBy []partition.NodeID
	Disks       []reports.Disk
	// Leads, Replicas (members and learners) count partitions of topics that are not deleted.
	Leads    int
	Replicas int
}

// Takes tells whether new replicas may be placed on it.
func (b Broker) Takes() bool { return b.Live && b.Sound && !b.Leaving && !b.Full }

// Of lists the brokers by id, with what they report.
func Of(v *topology.View, told reports.Reports) []Broker {
	brokers := make([]Broker, 0, len(v.Brokers))
	for id, known := range v.Brokers {
		if known.Ident.Value.Incarnation == 0 && known.Live == nil {
			continue // only orders are left
		}
		b := Broker{ID: id, Incarnation: known.Ident.Value.Incarnation, Zone: known.Ident.Value.Zone, Sound: sound(known.Ident.Value.Disks)}
		b.Draining, b.Leaving = known.Orders.Value.Drain, known.Orders.Value.Decommission != nil
		for _, d := range known.Ident.Value.Disks {
			b.Disks = append(b.Disks, reports.Disk{ID: d.ID, State: d.State})
		}
		if incarnation, live := Incarnation(known); live {
			b.Live, b.Incarnation = true, incarnation
			b.Address, b.Software = known.Live.Value.Capnp, known.Live.Value.Software
			b.hear(told[id])
		}
		brokers = append(brokers, b)
	}
	slices.SortFunc(brokers, func(a, b Broker) int { return cmp.Compare(a.ID, b.ID) })
	suspect(brokers, told)
	count(v, brokers)
	return brokers
}

// Index finds brokers by id.
type Index = map[partition.NodeID]*Broker

// ByID indexes brokers.
func ByID(brokers []Broker) Index {
	byID := make(Index, len(brokers))
	for i := range brokers {
		byID[brokers[i].ID] = &brokers[i]
	}
	return byID
}

// hear takes in what a broker says of itself, if it is this life of it that spoke.
func (b *Broker) hear(r reports.Report) {
	if r.From != (reports.Process{Broker: b.ID, Incarnation: b.Incarnation}) {
		return
	}
	b.Draining = b.Draining || r.Draining
	if len(r.Disks) > 0 {
		b.Disks = r.Disks
	}
	for _, d := range r.Disks {
		b.Draining = b.Draining || d.State == reports.DiskSlow || d.State == reports.DiskFull
		b.Full = b.Full || d.State == reports.DiskFull
	}
}

// suspect notes who does not reach whom, of the processes that live.
func suspect(brokers []Broker, told reports.Reports) {
	if len(told) == 0 {
		return
	}
	byID := ByID(brokers)
	for i := range brokers {
		from := &brokers[i]
		r := told[from.ID]
		if !from.Live || r.From.Incarnation != from.Incarnation {
			continue
		}
		for _, s := range r.Suspects {
			if b := byID[s.Broker]; b != nil && b.Live && b.Incarnation == s.Incarnation && b.ID != from.ID {
				b.SuspectedBy = append(b.SuspectedBy, from.ID)
			}
		}
	}
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
	byID := ByID(brokers)
	for id, assignments := range v.Partitions {
		if topic, ok := v.Topics[id]; !ok || topic.Value.Deleted != nil {
			continue
		}
		for _, a := range assignments {
			if b := byID[a.Value.Leader.Broker]; b != nil {
				b.Leads++
			}
			for id := range Holders(a.Value) {
				if b := byID[id]; b != nil {
					b.Replicas++
				}
			}
		}
	}
}

// Holders are the brokers whose data a partition needs: of its members and learners, and while it is electing of those that it is recovered from.
func Holders(a topology.Assignment) map[partition.NodeID]struct{} {
	holders := map[partition.NodeID]struct{}{}
	sets := [][]partition.Member{a.Members, a.Learners}
	if a.Status == topology.Electing {
		sets = append(sets, a.Base.Members)
	}
	for _, set := range sets {
		for _, m := range set {
			holders[m.Broker] = struct{}{}
		}
	}
	return holders
}

// sound is true also where no disk is told.
func sound(disks []topology.Disk) bool {
	for _, d := range disks {
		if d.State == reports.DiskOK {
			return true
		}
	}
	return len(disks) == 0
}
