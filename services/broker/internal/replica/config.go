package replica

import (
	"context"
	"log/slog"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/durability"
	"github.com/seedqueue/sq/services/broker/internal/errand"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// Config says which replica this is.
type Config struct {
	Partition   partition.ID
	Self        partition.Member
	Incarnation partition.Incarnation
	Dir         string // of its log, below the FS's root
	Sync        durability.Policy
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
	CatchUp   *outbox.Rate // bounds what replicas get that are far behind; the broker's, nil = no bound
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
