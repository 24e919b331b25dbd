package roster

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/services/broker/internal/journal"
)

// every calls f at an interval until ctx ends.
func (r *Roster) every(ctx context.Context, interval time.Duration, f func()) {
	timer := r.deps.Clock.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
			f()
			timer.Reset(interval)
		}
	}
}

// tick lets time pass for the replicas.
func (r *Roster) tick(ctx context.Context) {
	interval := tickEvery
	if i := r.cfg.Sync.Interval; i > 0 {
		interval = min(interval, i)
	}
	retried := r.deps.Clock.Now()
	unused := map[partition.UUID]time.Time{}
	r.every(ctx, interval, func() {
		for _, rep := range r.all() {
			rep.Tick()
		}
		if now := r.deps.Clock.Now(); now.Sub(retried) >= retryEvery {
			retried = now
			r.reviewAll() // what could not be opened for lack of room
			r.retire(ctx, unused)
		}
	})
}

// keepMarks keeps the journal's evidence at most a second old.
func (r *Roster) keepMarks(ctx context.Context) {
	told := map[partition.UUID][3]partition.Offset{}
	r.every(ctx, marksEvery, func() {
		if err := r.saveMarks(told); err != nil {
			r.fail(fault.Wrap("save marks", err))
		}
	})
}

// saveMarks writes the evidence of the replicas that have moved since told. A full disk only delays it.
func (r *Roster) saveMarks(told map[partition.UUID][3]partition.Offset) error {
	var records []journal.Record
	for _, rep := range r.all() {
		evidence, state := rep.Evidence()
		if last, ok := told[rep.ID()]; ok && last == state {
			continue
		}
		told[rep.ID()] = state
		records = append(records, evidence...)
	}
	if len(records) == 0 {
		return nil
	}
	for _, record := range records {
		if err := r.deps.Journal.Put(record); err != nil && !fault.Is(err, fault.NotFound) { // deleted meanwhile
			return ignoreFull(err)
		}
	}
	return ignoreFull(r.deps.Journal.Sync())
}

func ignoreFull(err error) error {
	if fault.Is(err, fault.DiskFull) {
		return nil
	}
	return err
}
