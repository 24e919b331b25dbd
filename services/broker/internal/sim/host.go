package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// learn takes in what the topology says of a partition, as the roster does.
func (p *process) learn(pt *part, a topology.Assignment, revision int64) {
	if revision < p.known[pt.index] {
		return
	}
	p.known[pt.index] = revision
	wanted := [][]partition.Member{a.Members, a.Learners, nil}
	if a.Status == topology.Electing {
		wanted[2] = a.Base.Members // they have to promise until the next is active
	}
	for _, set := range wanted {
		for _, m := range set {
			if m.Broker == p.n.id && p.find(m.Replica) == nil {
				h := &held{part: pt, id: m.Replica, busy: true}
				p.held = append(p.held, h)
				p.spawn(func() { p.openReplica(h) })
			}
		}
	}
	for _, h := range p.held {
		if h.part == pt && h.r != nil {
			h.r.Assign(a, revision)
		}
	}
}

func (p *process) find(id partition.UUID) *held {
	for _, h := range p.held {
		if h.id == id {
			return h
		}
	}
	return nil
}

// openReplica opens a replica, which it makes if it certainly never held anything.
func (p *process) openReplica(h *held) {
	w := p.n.w
	self := partition.Member{Broker: p.n.id, Replica: h.id}
	kept, known := p.journal.Replica(h.id)
	if !known {
		a, _, err := w.etcd.get(p, h.part)
		if err != nil {
			p.forget(h)
			return
		}
		if !a.MayBeEmpty(self) {
			h.failed = fault.Errorf(fault.Corrupt, "the data of a member is not here")
			w.stats.add("replica without data refused")
			return
		}
		if err := errors.Join(p.journal.Put(journal.Created(h.id, h.part.id, journal.Origin{})), p.journal.Sync()); err != nil {
			p.forget(h)
			p.openFailed("make a replica", err)
			return
		}
		kept, _ = p.journal.Replica(h.id)
		p.n.made[h.id] = true
	}
	dir, kept, err := install.Open(p.fs, dirOf(h.id), kept)
	if err != nil {
		h.failed = err
		p.openFailed("find a log", err)
		return
	}
	e := &errands{p: p}
	r, err := replica.Open(context.Background(), replica.Config{
		Partition: h.part.id, Self: self, Incarnation: p.incarnation, Dir: dir, Topic: w.topic,
		Limits: replica.Limits{GroupBytes: 64 << 10},
	}, p.deps(h, e), kept)
	if err != nil {
		h.failed = err
		p.openFailed("open a replica", err)
		return
	}
	h.r, h.busy = r, false
	w.etcd.tell(p, h.part, p.n.brief())
}

// forget lets a replica be opened again later.
func (p *process) forget(h *held) {
	p.held = slices.DeleteFunc(slices.Clone(p.held), func(x *held) bool { return x == h }) // whoever goes through the old list goes on
	p.known[h.part.index] = 0
	p.n.w.etcd.tell(p, h.part, 100*time.Millisecond)
}

func (p *process) deps(h *held, e *errands) replica.Deps {
	return replica.Deps{
		FS: p.fs, Files: p.files, Journal: p.journal, Workers: p.pool, Commit: p.commit, Activator: activator{p}, Peers: port{p}, Clock: &p.n.clock,
		Errands: e, Metrics: p.n.w.metrics, Log: p.n.w.logger(p.n), Refusal: func(bool) error { return nil }, NoRoom: func() {},
		Failed: func(err error) { p.replicaFailed(h, err) },
	}
}

func (p *process) replicaFailed(h *held, err error) {
	if errors.Is(err, replica.ErrInstalled) {
		p.n.w.stats.add("a log was begun anew")
		p.forget(h)
		return
	}
	h.failed = err
	switch {
	case fault.Is(err, fault.DiskPoisoned):
		p.diskFailed(err)
	case p.unreadable || fault.Is(err, fault.DiskFull):
		p.dying = err // somebody starts it again
	case p.n.damaged[h.id]:
		p.n.w.stats.add("a damaged replica stopped")
	case p.n.rotten:
		p.n.w.stats.add("a replica stopped on a rotten disk")
	default:
		p.n.w.fail("replica on node %d stops: %v", p.n.id, err)
	}
}
