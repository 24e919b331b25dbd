package replica

import (
	"errors"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// examine looks for damage around an offset that could not be read, and tells whether it found some that was not known. It waits for the disk.
func (r *Replica) examine(at partition.Offset) bool {
	found, err := r.damage.Examine(at)
	if err != nil {
		r.log.Error("cannot examine a segment", "offset", at, "err", err)
		if fault.Is(err, fault.DiskPoisoned) {
			r.mail.Post(func() { r.fail(err) })
		}
	}
	if found {
		r.mail.Post(func() { r.step(quorum.Damaged{Ranges: r.damage.Ranges()}) })
	}
	return found
}

// Examine reads the segment that holds an offset again, because a reader of the disk has found it bad, and takes what is damaged among what is not
// served. It waits for the disk.
func (r *Replica) Examine(at partition.Offset) { r.examine(at) }

// Faults gives the damaged ranges, in order.
func (r *Replica) Faults() []segment.Range { return r.wal.Faults() }

// Unfit tells why this replica does not lead although it was nominated; empty if there is no such reason.
func (r *Replica) Unfit() string { return r.view.Load().unfit }

// inactive is the answer of a replica that does not serve: somebody else does, or nobody can because of what is damaged here.
func (r *Replica) inactive(what string, v *view) error {
	op := what + r.cfg.Partition.String()
	if v.unfit != "" {
		return &fault.Error{Kind: fault.Corrupt, Op: op, Epoch: uint64(v.epoch), Err: errors.New("the replica that should lead cannot: " + v.unfit)}
	}
	return &fault.Error{Kind: fault.NotLeader, Op: op, Epoch: uint64(v.epoch)}
}
