package roster

import (
	"context"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/services/broker/internal/replica"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// harvestChanged wakes those who wait for a harvest.
func (r *Roster) harvestChanged() {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.mu.harvest)
	r.mu.harvest = make(chan struct{})
}

// Harvest lists the work that the partitions led here have for a tierer, at most segments sealed ones in all. It waits for some until wait has
// passed, and gives none then. Partitions take turns at being first.
func (r *Roster) Harvest(ctx context.Context, wait time.Duration, segments int) ([]sealed.Harvest, error) {
	var timeout <-chan time.Time
	for {
		r.mu.RLock()
		changed := r.mu.harvest
		r.mu.RUnlock()
		found, err := r.harvestNow(ctx, segments)
		if err != nil || len(found) > 0 || wait <= 0 {
			return found, err
		}
		if timeout == nil {
			timer := r.deps.Clock.NewTimer(wait)
			defer timer.Stop()
			timeout = timer.C()
		}
		select {
		case <-changed:
		case <-timeout:
			return nil, nil
		case <-ctx.Done():
			return nil, fault.Wrap("harvest", ctx.Err())
		}
	}
}

func (r *Roster) harvestNow(ctx context.Context, segments int) ([]sealed.Harvest, error) {
	working := slices.DeleteFunc(r.replicas(), func(rep *replica.Replica) bool { return !rep.HasHarvest() })
	slices.SortFunc(working, byPartition)
	var out []sealed.Harvest
	first := r.turn.Add(1)
	for i := range working {
		rep := working[(first+uint64(i))%uint64(len(working))]
		h, ok, err := rep.Harvest(ctx, max(segments, 0))
		switch {
		case ctx.Err() != nil:
			return nil, fault.Wrap("harvest", ctx.Err())
		case err != nil || !ok:
			continue // it has stopped, or somebody has done the work
		}
		segments -= len(h.Sealed)
		out = append(out, h)
	}
	return out, nil
}
