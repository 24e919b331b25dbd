package roster

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// follow acts on every View: on what is new in it, on everything where something may have to be tried again, and on what was busy before.
func (r *Roster) follow(ctx context.Context) {
	last := &topology.View{}
	for {
		changed := r.deps.View.Changed()
		view := r.deps.View.View()
		all, some := r.toReview()
		if all {
			last = &topology.View{}
		}
		r.reconcile(ctx, view, last)
		for _, id := range some {
			r.review(ctx, view, id)
		}
		last = view
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-r.retry:
		}
	}
}

// reconcile makes the roster what a View says where it differs from the last one. What the View does not mention stays as it is (doc.go 1).
func (r *Roster) reconcile(ctx context.Context, view, last *topology.View) {
	for topic, t := range view.Topics {
		fresh := last.Topics[topic].ModRevision != t.ModRevision
		if t.Value.Deleted != nil {
			if fresh {
				r.deleteTopic(topic)
			}
			continue
		}
		before := last.Partitions[topic]
		for i, a := range view.Partitions[topic] {
			if fresh || i >= len(before) || before[i].ModRevision != a.ModRevision {
				r.review(ctx, view, partition.ID{Topic: topic, Index: partition.Index(i)}) //nolint:gosec // bounded by the follower.
			}
		}
	}
}

// review makes the roster what a View says of one partition.
func (r *Roster) review(ctx context.Context, view *topology.View, id partition.ID) {
	t, known := view.Topics[id.Topic]
	if known && t.Value.Deleted != nil {
		r.deleteTopic(id.Topic)
		return
	}
	a, ok := view.Partition(id)
	if !known || !ok {
		return
	}
	mine := r.mine(a.Value)
	for replicaID := range mine {
		r.assign(ctx, id, replicaID, t.Value)
	}
	r.tell(id, mine, t.Value, a)
}

// assign opens a replica that is not open.
func (r *Roster) assign(ctx context.Context, id partition.ID, replicaID partition.UUID, t topology.Topic) {
	r.mu.Lock()
	h := r.hold(replicaID, id)
	begin := !h.busy && (h.again || h.r == nil && (h.err == nil || h.retryAt != 0 && r.deps.Clock.Now().Unix() >= h.retryAt))
	old := h.r
	if begin {
		h.busy, h.again, h.err, h.r, h.revision = true, false, nil, nil, 0
		r.serve(id)
	}
	r.mu.Unlock()
	if begin {
		r.opening.Go(func() {
			if old != nil {
				old.Close()
			}
			r.open(ctx, h, t)
		})
	}
}

// hold gives a replica's place among those that are held. Called with the lock held.
func (r *Roster) hold(replicaID partition.UUID, id partition.ID) *held {
	h := r.mu.held[replicaID]
	if h == nil {
		h = &held{id: id, replica: replicaID}
		r.mu.held[replicaID] = h
		r.mu.here[id] = append(r.mu.here[id], h)
	}
	return h
}

// tell has the open replicas of a partition learn what is new, those that the assignment has gone on without too.
func (r *Roster) tell(id partition.ID, mine map[partition.UUID]standing, t topology.Topic, a topology.Versioned[topology.Assignment]) {
	var tell, configure []*replica.Replica
	r.mu.Lock()
	for _, h := range r.mu.here[id] {
		h.standing = mine[h.replica]
		if h.r == nil {
			continue
		}
		if h.revision < a.ModRevision {
			h.revision = a.ModRevision
			tell = append(tell, h.r)
		}
		if h.standing > formerly {
			configure = append(configure, h.r)
		}
	}
	r.serve(id)
	r.mu.Unlock()
	for _, rep := range configure {
		rep.Configure(t)
	}
	for _, rep := range tell {
		rep.Assign(a.Value, a.ModRevision)
	}
}

// open recovers a replica and shows it.
func (r *Roster) open(ctx context.Context, h *held, t topology.Topic) {
	select {
	case r.opens <- struct{}{}:
		defer func() { <-r.opens }()
	case <-ctx.Done():
		return
	}
	rep, err := r.openOne(ctx, h, t)
	r.mu.Lock()
	h.busy, h.r, h.err, h.retryAt = false, rep, err, 0
	if err != nil && (fault.Is(err, fault.DiskFull) || fault.Is(err, fault.Unavailable)) {
		h.retryAt = r.deps.Clock.Now().Add(retryEvery).Unix()
	}
	r.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		r.deps.Log.Error("cannot open replica", "partition", h.id.String(), "replica", h.replica.String(), "err", err)
		if fault.Is(err, fault.DiskPoisoned) {
			r.fail(fault.Wrap("open replica of "+h.id.String(), err))
		}
	}
	r.reviewSoon(h.id) // whatever the topology said meanwhile has to be told
}

// reviewSoon has a partition looked at again.
func (r *Roster) reviewSoon(id partition.ID) {
	r.mu.Lock()
	r.mu.review = append(r.mu.review, id)
	r.mu.Unlock()
	r.signal()
}

// reviewAll has everything looked at again.
func (r *Roster) reviewAll() {
	r.mu.Lock()
	r.mu.reviewAll = true
	r.mu.Unlock()
	r.signal()
}

// toReview takes what is to be looked at again.
func (r *Roster) toReview() (all bool, some []partition.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all, some = r.mu.reviewAll, r.mu.review
	r.mu.reviewAll, r.mu.review = false, nil
	return all, some
}

func (r *Roster) signal() {
	select {
	case r.retry <- struct{}{}:
	default:
	}
}

func (r *Roster) openOne(ctx context.Context, h *held, t topology.Topic) (*replica.Replica, error) {
	id := ident{Format: formatNow, Cluster: r.cfg.Cluster, Topic: h.id.Topic, Partition: h.id.Index, Replica: h.replica}
	kept, known := r.deps.Journal.Replica(h.replica)
	if known {
		if err := checkDir(r.deps.FS, id); err != nil {
			return nil, fault.Wrap("find replica", err)
		}
	} else {
		if err := r.create(ctx, h, id); err != nil {
			return nil, err
		}
		kept, _ = r.deps.Journal.Replica(h.replica)
	}
	deps := replica.Deps{
		FS: r.deps.FS, Files: r.files, Journal: r.deps.Journal, Workers: r.workers, Commit: r.commit, Activator: r, Clock: r.deps.Clock, Metrics: r.metrics,
		Log: r.deps.Log, Refusal: r.deps.Disk.Refusal, NoRoom: r.deps.Disk.NoRoom, Failed: func(err error) { r.replicaFailed(h, err) }, Changed: r.harvestChanged, Compact: r.compact, CatchUp: r.catchUp,
	}
	if r.deps.Peers != nil {
		deps.Peers = r.deps.Peers(h.id)
	}
	dir, kept, err := install.Open(r.deps.FS, dirOf(h.replica), kept)
	if err != nil {
		return nil, fault.Wrap("find log", err)
	}
	rep, err := replica.Open(ctx, replica.Config{
		Partition: h.id, Self: partition.Member{Broker: r.cfg.Node, Replica: h.replica}, Incarnation: r.cfg.Incarnation,
		Dir: dir, Sync: r.cfg.Sync, Topic: t, Limits: r.cfg.Limits,
	}, deps, kept)
	if err != nil {
		return nil, fault.Wrap("open replica", err)
	}
	if err := install.Clean(r.deps.FS, dirOf(h.replica)); err != nil {
		rep.Close()
		return nil, fault.Wrap("remove an old log", err)
	}
	return rep, nil
}

// create makes a replica that never held anything. The assignment is read anew: a stale View must not make an empty log of a member (doc.go 3).
func (r *Roster) create(ctx context.Context, h *held, id ident) error {
	kv, ok, _, err := r.deps.Store.Get(ctx, topology.PartitionKey(h.id))
	if err != nil {
		return fault.Errorf(fault.Unavailable, "create replica: read assignment: %w", err)
	}
	if !ok {
		return fault.Errorf(fault.Unavailable, "create replica: the assignment is gone")
	}
	a, err := topology.Decode[topology.Assignment](kv.Value)
	if err != nil {
		return fault.Wrap("create replica", err)
	}
	self := partition.Member{Broker: r.cfg.Node, Replica: h.replica}
	// What has been assigned since this life began was never on another disk: it only comes late, the others have begun without it.
	late := r.cfg.Claimed > 0 && kv.CreateRevision > r.cfg.Claimed
	if !late && !a.MayBeEmpty(self) {
		return fault.Errorf(fault.Corrupt, "the data of replica %s is not on this disk, although it is a member since epoch %d", h.replica, a.Base.Epoch)
	}
	if err := makeDir(r.deps.FS, id); err != nil {
		return diskFault("create replica", err)
	}
	if err := r.deps.Journal.Put(journal.Created(h.replica, h.id, journal.Origin{})); err != nil {
		return fault.Wrap("create replica", err)
	}
	if err := r.deps.Journal.Sync(); err != nil {
		return fault.Wrap("create replica", err)
	}
	r.mu.Lock()
	r.mu.kept[h.replica] = h.id
	r.mu.Unlock()
	return nil
}

func diskFault(op string, err error) error {
	kind := fault.DiskPoisoned
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		kind = fault.DiskFull
	}
	return fault.Errorf(kind, "%s: %w", op, err)
}

// replicaFailed takes in that a replica has stopped by itself. A disk that failed ends the broker; damage ends the replica only.
func (r *Roster) replicaFailed(h *held, err error) {
	if errors.Is(err, replica.ErrInstalled) {
		r.reopen(h)
		return
	}
	r.mu.Lock()
	h.err = err
	r.serve(h.id)
	r.mu.Unlock()
	if fault.Is(err, fault.DiskPoisoned) {
		r.fail(err)
		return
	}
	r.deps.Log.Error("replica has stopped", "partition", h.id.String(), "replica", h.replica.String(), "err", err)
}

// reopen has a replica opened again whose log begins anew.
func (r *Roster) reopen(h *held) {
	r.mu.Lock()
	h.again = true
	r.serve(h.id)
	r.mu.Unlock()
	r.reviewSoon(h.id)
}

// deleteTopic deletes what this disk has of a topic with a tombstone (doc.go 2).
func (r *Roster) deleteTopic(topic partition.UUID) {
	r.mu.RLock()
	doomed := map[partition.UUID]partition.ID{}
	for replicaID, id := range r.mu.kept {
		if id.Topic == topic {
			doomed[replicaID] = id
		}
	}
	r.mu.RUnlock()
	for replicaID, id := range doomed {
		r.deleteReplica(replicaID, id, "its topic is deleted")
	}
}

func (r *Roster) deleteReplica(replicaID partition.UUID, id partition.ID, why string) {
	r.mu.Lock()
	h := r.hold(replicaID, id)
	if h.busy {
		r.mu.Unlock()
		return // opening; its end asks for another look
	}
	h.busy, h.deleted = true, true
	rep := h.r
	r.serve(id)
	r.mu.Unlock()
	r.opening.Go(func() {
		if rep != nil {
			rep.Close()
		}
		err := r.erase(replicaID)
		r.mu.Lock()
		r.forget(h)
		if err == nil {
			delete(r.mu.kept, replicaID)
		}
		r.mu.Unlock()
		if err != nil {
			r.deps.Log.Error("cannot delete replica", "partition", id.String(), "replica", replicaID.String(), "err", err)
			return
		}
		r.deps.Log.Info("replica is deleted", "partition", id.String(), "replica", replicaID.String(), "reason", why)
	})
}

// forget takes a replica from those that are held. Called with the lock held.
func (r *Roster) forget(h *held) {
	delete(r.mu.held, h.replica)
	r.mu.here[h.id] = slices.DeleteFunc(r.mu.here[h.id], func(other *held) bool { return other == h })
	if len(r.mu.here[h.id]) == 0 {
		delete(r.mu.here, h.id)
	}
}

// erase forgets a replica and removes its directory. The journal comes first: a directory without a record is nobody's.
func (r *Roster) erase(replicaID partition.UUID) error {
	if err := r.deps.Journal.Put(journal.Deleted(replicaID)); err != nil {
		return fault.Wrap("delete replica", err)
	}
	if err := r.deps.Journal.Sync(); err != nil {
		return fault.Wrap("delete replica", err)
	}
	return removeDir(r.deps.FS, replicaID)
}
