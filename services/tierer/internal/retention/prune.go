package retention

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/tierer/internal/export"
)

// Pruner deletes manifests.
type Pruner struct {
	Written func() []export.Written // since the last call: export.Exporter.TakeWritten
	Bucket  objstore.Bucket
	Store   topology.Store
	Cluster func() partition.UUID
	Clock   clock.Clock
	// Every is how often it looks; what it finds replaced it deletes the next time, so that who has begun to read one can end.
	Every   time.Duration
	Metrics *Metrics
	Log     *slog.Logger

	latest   map[partition.ID]uint64 // the newest manifest of each partition
	kept     []export.Written        // not deleted yet, by sequence
	replaced map[uint64]struct{}     // found the last time
}

// Run prunes until ctx ends, and then returns nil.
func (p *Pruner) Run(ctx context.Context) error {
	p.latest, p.replaced = map[partition.ID]uint64{}, map[uint64]struct{}{}
	timer := p.Clock.NewTimer(p.Every)
	defer timer.Stop()
	for {
		select {
		case <-timer.C():
		case <-ctx.Done():
			return nil
		}
		if err := p.prune(ctx); err != nil && ctx.Err() == nil {
			p.Log.WarnContext(ctx, "cannot delete replaced manifests, trying again later", "err", err)
		}
		timer.Reset(p.Every)
	}
}

// prune deletes what it found replaced before, and notes what is replaced now.
func (p *Pruner) prune(ctx context.Context) error {
	for _, written := range p.Written() {
		for _, id := range written.Partitions {
			p.latest[id] = max(p.latest[id], written.Sequence)
		}
		p.kept = append(p.kept, written)
	}
	floors := map[partition.ID]uint64{}
	var due []export.Written
	for _, written := range p.kept {
		if _, known := p.replaced[written.Sequence]; known {
			due = append(due, written)
			for _, id := range written.Partitions {
				floors[id] = max(floors[id], written.Sequence+1)
			}
		}
	}
	for id, floor := range floors {
		if err := raiseFloor(ctx, p.Store, id, floor); err != nil {
			return err
		}
	}
	for _, written := range due {
		if err := p.Bucket.Delete(ctx, manifest.Key(p.Cluster(), written.Sequence)); err != nil {
			return fault.Errorf(fault.Unavailable, "delete manifest %d: %w", written.Sequence, err)
		}
		delete(p.replaced, written.Sequence)
		p.forget(written.Sequence)
		p.Metrics.manifests.Inc()
	}
	for _, written := range p.kept {
		if p.isReplaced(written) {
			p.replaced[written.Sequence] = struct{}{}
		}
	}
	return nil
}

func (p *Pruner) isReplaced(written export.Written) bool {
	for _, id := range written.Partitions {
		if p.latest[id] <= written.Sequence {
			return false
		}
	}
	return true
}

func (p *Pruner) forget(sequence uint64) {
	for i, written := range p.kept {
		if written.Sequence == sequence {
			p.kept = append(p.kept[:i], p.kept[i+1:]...)
			return
		}
	}
}

// raiseFloor writes that sequences below floor may be gone. A floor never falls.
func raiseFloor(ctx context.Context, store topology.Store, id partition.ID, floor uint64) error {
	key := topology.TierKey(id)
	for {
		kv, ok, _, err := store.Get(ctx, key)
		if err != nil {
			return fault.Wrap("read sequence floor", err)
		}
		if ok {
			old, err := topology.Decode[topology.TierFloor](kv.Value)
			if err != nil {
				return fault.Wrap("read sequence floor", err)
			}
			if old.ManifestSequence >= floor {
				return nil
			}
		}
		data, err := topology.Encode(topology.TierFloor{V: topology.SchemaVersion, ManifestSequence: floor})
		if err != nil {
			return err //nolint:wrapcheck // says what it encodes.
		}
		_, err = store.Txn(ctx, []topology.Compare{{Key: key, Want: kv.ModRevision}}, []topology.Op{{Key: key, Value: data}})
		if err != nil && !errors.Is(err, topology.ErrUnavailable) {
			return fault.Wrap("raise sequence floor", err)
		}
		// Raised, raised by another, or unknown: the next read tells.
	}
}
