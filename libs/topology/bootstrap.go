package topology

import (
	"context"
	"errors"
	"slices"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

// Bootstrap gives the cluster's identity, and makes it where there is none: the first process writes it, all others read it. want is the
// cluster that the caller must belong to; zero = any, or a new one. Another cluster's is fault.WrongCluster.
func Bootstrap(
	ctx context.Context, store Store, want partition.UUID, clk clock.Clock, newUUID func() partition.UUID,
) (Versioned[Cluster], error) {
	for {
		found, ok, err := readCluster(ctx, store)
		if err != nil {
			return Versioned[Cluster]{}, fault.Wrap("read cluster identity", err)
		}
		if ok {
			if !want.IsZero() && found.Value.ID != want {
				return Versioned[Cluster]{}, fault.Errorf(fault.WrongCluster,
					"join cluster %s: the topology store belongs to cluster %s", want, found.Value.ID)
			}
			return found, nil
		}
		made := Cluster{V: SchemaVersion, ID: want, Lineage: newUUID(), Generation: 1, Created: clk.Now().UTC()}
		if made.ID.IsZero() {
			made.ID = newUUID()
		}
		data, err := Encode(made)
		if err != nil {
			return Versioned[Cluster]{}, err
		}
		_, err = store.Txn(ctx, []Compare{{Key: ClusterKey}}, []Op{{Key: ClusterKey, Value: data}})
		if err != nil && !errors.Is(err, ErrUnavailable) {
			return Versioned[Cluster]{}, fault.Wrap("write cluster identity", err)
		}
		// Written, written by another, or unknown: the next read tells.
	}
}

func readCluster(ctx context.Context, store Store) (Versioned[Cluster], bool, error) {
	kv, ok, _, err := store.Get(ctx, ClusterKey)
	if err != nil || !ok {
		return Versioned[Cluster]{}, false, err //nolint:wrapcheck // Bootstrap wraps it.
	}
	value, err := Decode[Cluster](kv.Value)
	return Versioned[Cluster]{Value: value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision}, err == nil, err
}

// Claim is a broker's life: its incarnation, and the guard by which what it writes fails once a later life has begun.
type Claim struct {
	Incarnation partition.Incarnation
	Guard       Compare
	Disks       []Disk
}

// ClaimBroker begins a broker's next life: it writes the ident with the incarnation raised by one. With none of the disks that the id had
// before, it is refused (fault.Conflict) while a process is registered under the id: that is another broker, whose records are not here.
// A disk's failures are kept; one that is retired is refused (fault.Conflict).
func ClaimBroker(ctx context.Context, store Store, node partition.NodeID, zone string, disks []Disk) (Claim, error) {
	key := BrokerIdentKey(node)
	for {
		kv, ok, _, err := store.Get(ctx, key)
		if err != nil {
			return Claim{}, fault.Wrap("read "+key, err)
		}
		next := BrokerIdent{V: SchemaVersion, Incarnation: 1, Zone: zone, Disks: disks}
		guards := []Compare{{Key: key, Want: kv.ModRevision}}
		if ok {
			old, err := Decode[BrokerIdent](kv.Value)
			if err != nil {
				return Claim{}, fault.Wrap("read "+key, err)
			}
			next.Incarnation = old.Incarnation + 1
			if next.Disks, err = taken(disks, old.Disks); err != nil {
				return Claim{}, err
			}
			if !shareDisk(old.Disks, disks) {
				if err := refuseWhileLive(ctx, store, node); err != nil {
					return Claim{}, err
				}
				guards = append(guards, Compare{Key: BrokerLiveKey(node)})
			}
		}
		data, err := Encode(next)
		if err != nil {
			return Claim{}, err
		}
		result, err := store.Txn(ctx, guards, []Op{{Key: key, Value: data}})
		switch {
		case err == nil && result.Succeeded:
			return Claim{Incarnation: next.Incarnation, Guard: Compare{Key: key, Want: result.Revision}, Disks: next.Disks}, nil
		case err != nil && !errors.Is(err, ErrUnavailable):
			return Claim{}, fault.Wrap("write "+key, err)
		}
		// Lost to another, or unknown: a life that nobody lives costs a number only.
	}
}

func shareDisk(a, b []Disk) bool {
	same := func(x Disk) bool { return slices.ContainsFunc(b, func(y Disk) bool { return x.ID == y.ID }) }
	return len(a) == 0 && len(b) == 0 || slices.ContainsFunc(a, same)
}

func refuseWhileLive(ctx context.Context, store Store, node partition.NodeID) error {
	kv, ok, _, err := store.Get(ctx, BrokerLiveKey(node))
	if err != nil || !ok {
		return fault.Wrap("read "+BrokerLiveKey(node), err)
	}
	where := "unreadable address"
	if live, err := Decode[Live](kv.Value); err == nil {
		where = live.Capnp
	}
	return fault.Errorf(fault.Conflict,
		"node id %d: a broker with another data directory is registered under it (%s): choose another node-id, or stop that broker", node, where)
}
