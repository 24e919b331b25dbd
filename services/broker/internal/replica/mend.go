package replica

import (
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// mend collects good batches for a damaged range, whose bytes are not the replica's, and puts them in its place when all are there.
func (r *Replica) mend(e quorum.Mend) {
	batches := r.mending.Add(e)
	if len(batches) == 0 {
		return
	}
	var refused error
	repair := func() error {
		err := r.damage.Repair(batches)
		if fault.Is(err, fault.Invalid) {
			refused, err = err, nil
		}
		return err
	}
	r.io.Change(repair, func(err error) {
		if err == nil {
			err = refused
		}
		if err != nil {
			r.log.Error("cannot repair a damaged range", "err", err)
			return
		}
		r.log.Info("a damaged range is repaired from the leader", "batches", len(batches))
		if len(r.wal.Faults()) == 0 && r.core.Unknown() {
			r.fail(ErrInstalled) // what the range says is not folded: it is read when the log is opened again
			return
		}
		r.step(quorum.Damaged{Ranges: r.damage.Ranges()})
	})
}
