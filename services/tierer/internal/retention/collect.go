package retention

import (
	"context"
	"log/slog"
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/partition"
)

// Ledger has the tables: ledger.Ledger.
type Ledger interface {
	Refresh(ctx context.Context, id partition.ID) (*manifest.Table, error)
}

// Leader is told: leader.Pool.
type Leader interface {
	Collected(ctx context.Context, id partition.ID, keys []string) error
}

// Collector deletes segments.
type Collector struct {
	Ledger  Ledger
	Leader  Leader
	Bucket  objstore.Bucket
	Cluster func() partition.UUID
	Metrics *Metrics
	Log     *slog.Logger
}

// Collect deletes the objects of a partition that its leader names, and tells it.
func (c *Collector) Collect(ctx context.Context, id partition.ID, keys []string) error {
	cluster := c.Cluster()
	for _, key := range keys {
		if !manifest.IsSegmentKey(cluster, id, key) {
			return fault.Errorf(fault.Corrupt, "collect segments of %s: %q is not the key of one", id, key)
		}
	}
	table, err := c.Ledger.Refresh(ctx, id)
	if err != nil {
		return fault.Wrap("collect segments of "+id.String(), err)
	}
	for _, s := range table.Segments {
		if key := s.KeyIn(cluster, id); slices.Contains(keys, key) {
			return fault.Errorf(fault.Corrupt, "collect segments of %s: the tier table still names %q", id, key)
		}
	}
	for _, key := range keys {
		if err := c.Bucket.Delete(ctx, key); err != nil {
			return fault.Errorf(fault.Unavailable, "collect segments of %s: %w", id, err)
		}
		c.Metrics.segments.Inc()
	}
	if err := c.Leader.Collected(ctx, id, keys); err != nil {
		return fault.Wrap("report collected segments of "+id.String(), err)
	}
	c.Log.InfoContext(ctx, "dropped segments deleted from the bucket", "partition", id.String(), "segments", len(keys))
	return nil
}
