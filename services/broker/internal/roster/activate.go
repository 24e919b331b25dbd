package roster

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

var _ replica.Activator = (*Roster)(nil)

// Activate implements replica.Activator: the assignment must still be what was read at revision, where it was ELECTING and this process's.
func (r *Roster) Activate(ctx context.Context, id partition.ID, read topology.Assignment, revision int64, start partition.Offset) bool {
	release, ok := r.swap(ctx)
	if !ok {
		return false
	}
	defer release()
	value, err := topology.Encode(read.Activate(start))
	if err != nil {
		r.deps.Log.Error("cannot encode assignment", "partition", id.String(), "err", err)
		return false
	}
	key := topology.PartitionKey(id)
	result, err := r.deps.Store.Txn(ctx,
		[]topology.Compare{{Key: key, Target: topology.CompareModRevision, Want: revision}},
		[]topology.Op{{Key: key, Value: value}})
	if err != nil && ctx.Err() == nil {
		r.deps.Log.Warn("activation is not known to have succeeded", "partition", id.String(), "epoch", read.Epoch, "err", err)
	}
	return err == nil && result.Succeeded
}

// Reread implements replica.Activator.
func (r *Roster) Reread(ctx context.Context, id partition.ID) (topology.Assignment, int64, error) {
	release, ok := r.swap(ctx)
	if !ok {
		return topology.Assignment{}, 0, fault.Wrap("read assignment", ctx.Err())
	}
	defer release()
	kv, ok, _, err := r.deps.Store.Get(ctx, topology.PartitionKey(id))
	switch {
	case err != nil:
		return topology.Assignment{}, 0, fault.Wrap("read assignment", err)
	case !ok:
		return topology.Assignment{}, 0, fault.Errorf(fault.NotFound, "read assignment of %s: it is gone", id)
	}
	a, err := topology.Decode[topology.Assignment](kv.Value)
	return a, kv.ModRevision, err //nolint:wrapcheck // Decode says what it reads.
}

// swap waits for a place among the calls to the store.
func (r *Roster) swap(ctx context.Context) (release func(), ok bool) {
	select {
	case r.swaps <- struct{}{}:
		return func() { <-r.swaps }, true
	case <-ctx.Done():
		return nil, false
	}
}
