package replica

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/errand"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// SyncPolicy says when a broker syncs what it appended. The zero value is every batch: before the ack.
type SyncPolicy struct {
	// Interval > 0: at this interval, and acks do not wait.
	Interval time.Duration
	// None: when the operating system likes, and acks do not wait.
	None bool
}

// ParseSyncPolicy reads "every-batch", "none" or a duration.
func ParseSyncPolicy(s string) (SyncPolicy, error) {
	switch s {
	case "every-batch", "":
		return SyncPolicy{}, nil
	case "none":
		return SyncPolicy{None: true}, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond || d > time.Hour {
		return SyncPolicy{}, fmt.Errorf("sync policy %q: want every-batch, none, or a duration from 1ms to 1h", s)
	}
	return SyncPolicy{Interval: d}, nil
}

// String gives the form that ParseSyncPolicy reads.
func (p SyncPolicy) String() string {
	switch {
	case p.None:
		return "none"
	case p.Interval > 0:
		return p.Interval.String()
	default:
		return "every-batch"
	}
}

// EveryBatch tells whether every group is synced before it counts.
func (p SyncPolicy) EveryBatch() bool { return !p.None && p.Interval == 0 }

// counting says by which mark a majority is counted, and so what an ack says.
func (p SyncPolicy) counting(d topology.Durability) (quorum.Counting, wirecapnp.Durability) {
	if p.EveryBatch() && d != topology.DurabilityRelaxed {
		return quorum.CountPersisted, wirecapnp.Durability_fsyncQuorum
	}
	return quorum.CountWritten, wirecapnp.Durability_writtenQuorum
}

// Config says which replica this is.
type Config struct {
	Partition   partition.ID
	Self        partition.Member
	Incarnation partition.Incarnation
	Dir         string // of its log, below the FS's root
	Sync        SyncPolicy
	Topic       topology.Topic
	Limits      Limits
}

// Activator writes and reads the partition's assignment. Both calls may take as long as ctx lives.
type Activator interface {
	// Activate compares-and-swaps an assignment that was read at revision to ACTIVE with its start; false if that did not certainly succeed.
	Activate(ctx context.Context, id partition.ID, read topology.Assignment, revision int64, start partition.Offset) bool
	// Reread reads the assignment linearizably.
	Reread(ctx context.Context, id partition.ID) (topology.Assignment, int64, error)
}

// Deps is what a replica works with; it owns none of it.
type Deps struct {
	FS        vfs.FS
	Files     *segment.Files // open files, shared by the logs of a disk
	Journal   *journal.Journal
	Workers   *workers.Pool
	Commit    *commit.Committer // makes what is appended durable, together with other logs of the disk
	Activator Activator
	Peers     outbox.Peers // carries messages to other brokers; not used by a partition with one replica
	Clock     clock.Clock
	// Errands, if set, makes a replica that is driven by hand (doc.go 8) and dropped, not closed. nil = goroutines.
	Errands errand.Runner
	Metrics *Metrics
	Log     *slog.Logger
	// Refusal gives the error for a publish, or for an append that makes no room, while the disk does not take it.
	Refusal func(appends bool) error
	// NoRoom is called when a write found no room.
	NoRoom  func()
	Compact *compact.Turn // the disk's; nil = nothing is compacted
	// Failed is called at most once, from the replica's goroutine, when the replica has stopped because of its disk or its log.
	Failed func(error)
	// Changed is called from the replica's goroutine when its harvest, or whether it leads, may have changed. It must not block. May be nil.
	Changed func()
}
