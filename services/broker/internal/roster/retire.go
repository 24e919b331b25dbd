package roster

import (
	"context"
	"maps"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// retire deletes the data of replicas that their partitions have gone on without for a while (doc.go 2). since is when each was first seen
// without use.
func (r *Roster) retire(ctx context.Context, since map[partition.UUID]time.Time) {
	view, now := r.deps.View.View(), r.deps.Clock.Now()
	r.mu.RLock()
	kept := maps.Clone(r.mu.kept)
	r.mu.RUnlock()
	maps.DeleteFunc(since, func(id partition.UUID, _ time.Time) bool { _, ok := kept[id]; return !ok })
	for replicaID, id := range kept {
		a, ok := view.Partition(id)
		if !ok || !without(a.Value, replicaID) {
			delete(since, replicaID)
			continue
		}
		if first, ok := since[replicaID]; !ok {
			since[replicaID] = now
		} else if now.Sub(first) >= retireAfter {
			since[replicaID] = now
			r.opening.Go(func() { r.retireOne(ctx, replicaID, id) })
		}
	}
}

// retireOne deletes a replica if what etcd says now allows it: a View may be old.
func (r *Roster) retireOne(ctx context.Context, replicaID partition.UUID, id partition.ID) {
	a, _, err := r.Reread(ctx, id)
	if err == nil && without(a, replicaID) {
		r.deleteReplica(replicaID, id, "it is not a member any more")
	}
}

// without tells whether a partition is active, so that a majority of its members has all of the log, and neither they nor its learners are
// this replica.
func without(a topology.Assignment, replicaID partition.UUID) bool {
	if a.Status != topology.Active {
		return false
	}
	for _, set := range [][]partition.Member{a.Members, a.Learners} {
		for _, m := range set {
			if m.Replica == replicaID {
				return false
			}
		}
	}
	return true
}
