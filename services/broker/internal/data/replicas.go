package data

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/replica"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// Replicas are the replicas that this broker holds.
type Replicas interface {
	// Replica finds the replica of a partition; ok is false where this broker holds none. It does not wait.
	Replica(id partition.ID) (r Replica, ok bool)
	// Topic finds the settings of a topic that is not deleted, as the broker knows them now. It does not wait.
	Topic(id partition.UUID) (t topology.Topic, ok bool)
	// Harvest lists the work that the partitions led here have for a tierer, at most maxSegments segments; it waits for some until wait has
	// passed or ctx ends, and answers with none then.
	Harvest(ctx context.Context, wait time.Duration, maxSegments int) ([]sealed.Harvest, error)
}

// Replica is one partition as data uses it. Errors are faults. What belongs to the leader fails with NotLeader elsewhere.
type Replica interface {
	// Publish appends one batch that data has verified. Calls on one replica are appended in the order in which they were made. It does not
	// wait.
	Publish(p replica.Publish)
	// Fetch reads committed batches; it waits for one at most f.Wait.
	Fetch(ctx context.Context, f replica.Fetch) (replica.Fetched, error)
	// ListOffset finds a place.
	ListOffset(ctx context.Context, at replica.ListOffset) (replica.ListedOffset, error)
	// Seal closes the open segment, if it holds records, and waits for its Seal to be committed.
	Seal(ctx context.Context) (replica.SealResult, error)
	// Trim moves the log start, or with localOnly the local start.
	Trim(ctx context.Context, before partition.Offset, localOnly bool) (replica.TrimResult, error)
	// ID names the replica.
	ID() partition.UUID
	// State tells where the replica stands.
	State() replica.State
	// Standings tells where all replicas of the partition stand, if this one leads.
	Standings(ctx context.Context) ([]replica.Standing, error)
	// ReadSealed reads the log part of a sealed segment; index and snapshot come with position 0. The caller closes the chunk.
	ReadSealed(base partition.Offset, position uint64, maxBytes int) (replica.SealedPart, error)
	// TierTable lists the segments in the bucket with an end above from; none if the table is not newer than since.
	TierTable(ctx context.Context, since uint64, from partition.Offset, maxSegments int) (sealed.Excerpt, error)
	// CommitTier puts segments into the tier table.
	CommitTier(ctx context.Context, segments []sealed.Segment) (sealed.Committed, error)
	// Exported notes that a manifest covers the table.
	Exported(ctx context.Context, e sealed.Exported) error
	// Collected notes that keys are gone from the bucket.
	Collected(ctx context.Context, keys []string) error
}
