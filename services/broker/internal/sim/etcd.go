package sim

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/mutant"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// etcd is a register for each partition, and a counter of lives for each node. It is linearizable; answers get lost, and it can be away.
type etcd struct {
	w     *World
	down  bool
	lives map[partition.NodeID]partition.Incarnation // read by key only
	rev   int64
}

// register is the key of a partition's assignment.
type register struct {
	value    topology.Assignment
	revision int64
}

func (e *etcd) reachable(n *node) bool { return !e.down && (n == nil || !n.etcdCut) }

func (e *etcd) incarnate(n *node) partition.Incarnation {
	e.lives[n.id]++
	return e.lives[n.id]
}

// latency is a way to etcd, or back.
func (e *etcd) latency() time.Duration {
	return e.w.knobs.etcd/2 + time.Duration(e.w.rng.Int64N(int64(e.w.knobs.etcd)))
}

// lost tells whether a request or an answer of a node does not arrive.
func (e *etcd) lost(n *node) bool {
	return !e.reachable(n) || e.w.rng.IntN(1000) < e.w.knobs.etcdLoss
}

// call has something done at etcd and waits for the answer. done is false if the answer did not come: perhaps it was done, perhaps it will be.
func (e *etcd) call(p *process, do func()) (done bool) {
	w := e.w
	if p.dead {
		return false
	}
	answered, over := false, false
	p.after("etcd timeout", time.Second, func() { over = true })
	if !e.lost(p.n) {
		w.agenda.push(w.now+e.latency(), func() {
			if !e.reachable(p.n) {
				return
			}
			do()
			if !e.lost(p.n) {
				p.after("etcd answer", e.latency(), func() { answered = true })
			}
		})
	}
	w.await(func() bool { return answered || over })
	return answered
}

// get reads an assignment.
func (e *etcd) get(p *process, pt *part) (topology.Assignment, int64, error) {
	var got register
	if !e.call(p, func() { got = pt.register }) {
		return topology.Assignment{}, 0, fault.Errorf(fault.Unavailable, "etcd does not answer")
	}
	return got.value, got.revision, nil
}

// put writes an assignment if it was not changed since a revision.
func (e *etcd) put(pt *part, a topology.Assignment, revision int64) bool {
	if pt.register.revision != revision {
		return false
	}
	if a.Epoch < pt.register.value.Epoch {
		e.w.fail("I1: epoch %d is written over epoch %d", a.Epoch, pt.register.value.Epoch)
	}
	e.rev++
	pt.register = register{a, e.rev}
	e.w.assigned(pt)
	for _, n := range e.w.nodes { // the watch, which loses some
		if n.p != nil && !e.lost(n) {
			e.tell(n.p, pt, e.latency())
		}
	}
	return true
}

// tell gives a process, after a while, what is in the register then.
func (e *etcd) tell(p *process, pt *part, wait time.Duration) {
	e.w.agenda.push(e.w.now+wait, func() {
		if e.reachable(p.n) && !p.dead {
			read := pt.register
			if read.revision > 0 {
				p.after("watch", p.n.brief(), func() { p.learn(pt, read.value, read.revision) })
			}
		}
	})
}

// activator is what a replica has of etcd.
type activator struct{ p *process }

func (a activator) Activate(_ context.Context, id partition.ID, read topology.Assignment, revision int64, start partition.Offset) bool {
	w := a.p.n.w
	pt := w.partOf(id)
	w.moment("before an activation", a.p.n)
	won := false
	answered := w.etcd.call(a.p, func() { //nolint:contextcheck // nothing here waits.
		if mutant.Is(mutant.UnguardedActivation) {
			revision = pt.register.revision
		}
		if won = w.etcd.put(pt, read.Activate(start), revision); won {
			w.activated(pt, start)
		}
	})
	if !answered {
		w.stats.add("activation with an unknown result")
	}
	return answered && won
}

func (a activator) Reread(_ context.Context, id partition.ID) (topology.Assignment, int64, error) {
	return a.p.n.w.etcd.get(a.p, a.p.n.w.partOf(id)) //nolint:contextcheck // nothing here waits.
}
