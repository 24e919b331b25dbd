package roster

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// standing is what the newest assignment calls a replica; the one that stands highest serves its partition.
type standing uint8

const (
	formerly standing = iota // nothing: it may be wanted again, or be deleted after a while
	fenced                   // a member of the last active epoch, not of the one that is being elected
	learner
	member
)

// mine gives the replicas that an assignment wants open here. Members of the last active epoch have to promise until the next is active.
func (r *Roster) mine(a topology.Assignment) map[partition.UUID]standing {
	mine := map[partition.UUID]standing{}
	note := func(set []partition.Member, as standing) {
		for _, m := range set {
			if m.Broker == r.cfg.Node {
				mine[m.Replica] = max(mine[m.Replica], as)
			}
		}
	}
	if a.Status == topology.Electing {
		note(a.Base.Members, fenced)
	}
	note(a.Learners, learner)
	note(a.Members, member)
	return mine
}

// serve chooses the replica that serves a partition. Called with the lock held.
func (r *Roster) serve(id partition.ID) {
	var best *held
	for _, h := range r.mu.here[id] {
		if h.r != nil && h.err == nil && !h.deleted && !h.again && h.standing >= learner && (best == nil || h.standing > best.standing) {
			best = h
		}
	}
	if best == nil {
		delete(r.mu.serving, id)
		return
	}
	r.mu.serving[id] = best.r
}
