package sim

import (
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// nominator is in the place of a coordinator: it nominates whom it likes, and now and then other members, which no rule of safety may mind.
func (w *World) nominator() {
	for _, pt := range w.parts {
		w.nominate(pt)
	}
	w.agenda.push(w.now+w.knobs.nominate/2+time.Duration(w.rng.Int64N(int64(w.knobs.nominate))), w.nominator)
}

func (w *World) nominate(pt *part) {
	if w.etcd.down {
		return
	}
	a, revision := pt.register.value, pt.register.revision
	if a.Epoch == 0 {
		members := w.someMembers(pt)
		w.etcd.put(pt, topology.First(w.leaderOf(members[w.rng.IntN(len(members))]), members), 0)
		return
	}
	if w.healthy(pt) {
		pt.stuck = w.now
	}
	patience := time.Duration(0)
	if w.calm {
		if patience = 2 * time.Second; w.lives(a.Leader) {
			patience = 7 * time.Second // a candidate may wait 5 s for all base members
		}
	} else if w.rng.IntN(100) < w.knobs.churn {
		patience = -1
	}
	if w.healthy(pt) && patience >= 0 || w.now-pt.stuck < patience {
		return
	}
	pt.stuck = w.now
	members := a.Members
	if !w.calm && w.rng.IntN(100) < w.knobs.reconfigure {
		members = w.someMembers(pt)
		w.stats.add("reconfigurations")
	}
	leader := members[w.rng.IntN(len(members))]
	for range 3 {
		if n := w.node(leader.Broker); n.p == nil || n.ruined != nil || n.pausedTo > w.now {
			leader = members[w.rng.IntN(len(members))]
		}
	}
	w.stats.add("nominations")
	next := a.Nominate(w.leaderOf(leader), members)
	if !w.calm && w.rng.IntN(100) < 5 { // a coordinator that was away for a while: its write is refused
		w.agenda.push(w.now+w.etcd.latency()*20, func() { _ = !w.calm && w.etcd.put(pt, next, revision) })
		return
	}
	w.etcd.put(pt, next, revision)
	w.moment("after a nomination", w.node(leader.Broker))
}

// healthy tells whether the leader is up and serves.
func (w *World) healthy(pt *part) bool {
	l := pt.register.value.Leader
	return pt.register.value.Status == topology.Active && w.lives(l) && w.node(l.Broker).p.leads(pt)
}

func (p *process) leads(pt *part) bool {
	h := p.serving(pt)
	return h != nil && h.active
}

// lives tells whether the process that was nominated is there.
func (w *World) lives(l topology.Leader) bool {
	p := w.node(l.Broker).p
	return p != nil && p.incarnation == l.Incarnation
}

func (w *World) leaderOf(m partition.Member) topology.Leader {
	return topology.Leader{Broker: m.Broker, Replica: m.Replica, Incarnation: w.etcd.lives[m.Broker]}
}

// someMembers gives one, three or five members. A node keeps its replica, unless its disk was lost.
func (w *World) someMembers(pt *part) []partition.Member {
	sizes := []int{1, 3, 3, 3, 3, 3, 5, 5}
	size := min(sizes[w.rng.IntN(len(sizes))], len(w.nodes))
	size -= 1 - size%2
	if w.knobs.alone {
		size = 1
	}
	var members []partition.Member
	for _, i := range w.rng.Perm(len(w.nodes)) {
		if n := w.nodes[i]; n.ruined == nil && !n.stopped && len(members) < size {
			members = append(members, w.memberOn(pt, n))
		}
	}
	return members
}

// memberOn gives the member of a node: the one that it has, or a new one.
func (w *World) memberOn(pt *part, n *node) partition.Member {
	if _, ok := pt.replicas[n.id]; !ok {
		pt.replicas[n.id] = pt.newReplica(n.id)
	}
	return pt.replicas[n.id]
}
