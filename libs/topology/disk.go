package topology

import (
	"context"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

// DiskMemory is how long a failure of a disk counts: a second one within it retires the disk.
const DiskMemory = 24 * time.Hour

// taken gives the disks of a broker's next life with what is known of them.
func taken(disks, known []Disk) ([]Disk, error) {
	out := slices.Clone(disks)
	for i := range out {
		at := slices.IndexFunc(known, func(d Disk) bool { return d.ID == out[i].ID })
		if at < 0 || out[i].Forgive {
			continue
		}
		out[i].Failures = known[at].Failures
		if n := len(out[i].Failures); known[at].State == DiskRetired && n > 0 {
			return nil, fault.Errorf(fault.Conflict, "disk %s has failed %d times within a day, last at %s, and is retired: give the broker an empty data directory "+
				"on another disk, or set use-retired-disk where the cause is gone", out[i].ID, n, out[i].Failures[n-1].UTC().Format(time.RFC3339))
		}
	}
	return out, nil
}

// FailDisk notes that a disk of a broker has failed, so that the next life and the coordinator know. It is the last thing that a life writes: its
// guard does not hold any more. It is tried once.
func FailDisk(ctx context.Context, store Store, node partition.NodeID, claim Claim, disk partition.UUID, now time.Time) (Disk, error) {
	key := BrokerIdentKey(node)
	kv, ok, _, err := store.Get(ctx, key)
	if err != nil {
		return Disk{}, fault.Wrap("read "+key, err)
	}
	if !ok || kv.ModRevision != claim.Guard.Want {
		return Disk{}, fault.Errorf(fault.Conflict, "note that a disk has failed: a later life has begun")
	}
	ident, err := Decode[BrokerIdent](kv.Value)
	if err != nil {
		return Disk{}, fault.Wrap("read "+key, err)
	}
	at := slices.IndexFunc(ident.Disks, func(d Disk) bool { return d.ID == disk })
	if at < 0 {
		return Disk{}, fault.Errorf(fault.NotFound, "note that disk %s has failed: broker %d does not have it", disk, node)
	}
	d := &ident.Disks[at]
	d.Failures = slices.DeleteFunc(append(slices.Clone(d.Failures), now.UTC()), func(t time.Time) bool { return now.Sub(t) > DiskMemory })
	if d.State = DiskPoisoned; len(d.Failures) > 1 {
		d.State = DiskRetired
	}
	data, err := Encode(ident)
	if err != nil {
		return Disk{}, err
	}
	result, err := store.Txn(ctx, []Compare{claim.Guard}, []Op{{Key: key, Value: data}})
	if err == nil && !result.Succeeded {
		err = fault.Errorf(fault.Conflict, "a later life has begun")
	}
	return *d, fault.Wrap("write "+key, err)
}
