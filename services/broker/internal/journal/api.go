package journal

import (
	"errors"
	"log/slog"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
)

// Config says where a journal is. FS and Dir are needed.
type Config struct {
	FS  vfs.FS
	Dir string // below the FS's root; made if missing
	Log *slog.Logger
	// Create allows a journal to be made where there is none. Without it a missing one is fault.Corrupt: a disk that had promises
	// must not forget them.
	Create bool
	Limits Limits
}

// Limits bounds a journal; zero fields mean the default.
type Limits struct {
	// CheckpointBytes: a file larger than this and than twice its live state is replaced by one with the live state only. Default 1 MiB.
	CheckpointBytes int64
	// PendingBytes bounds what was Put and not yet written. Default 1 MiB.
	PendingBytes int
}

// State is what the journal knows of the replicas of its disk.
type State struct {
	Replicas map[partition.UUID]Replica
}

// Replica is the replica-local state of one replica.
type Replica struct {
	ID      partition.ID // topic and index
	Promise partition.Epoch
	HW      partition.Offset // a floor: never truncate below
	Mark    segment.Mark
	Origin  Origin // where its log begins while it has no file
	Faults  []segment.Range
}

// Origin is the offset and chain word at which an empty log begins.
type Origin struct {
	Offset partition.Offset
	Chain  uint64
}

// Record changes one thing in the state. Make one with the functions below.
type Record struct{ replica partition.UUID }

// Created makes a replica known, with nothing promised.
func Created(replica partition.UUID, id partition.ID, origin Origin) Record { return Record{replica} }

// Deleted forgets a replica.
func Deleted(replica partition.UUID) Record { return Record{replica} }

// Promise raises the promised epoch; a lower one than known changes nothing.
func Promise(replica partition.UUID, epoch partition.Epoch) Record { return Record{replica} }

// Mark replaces the durable mark.
func Mark(replica partition.UUID, mark segment.Mark) Record { return Record{replica} }

// HW raises the floor; a lower one than known changes nothing.
func HW(replica partition.UUID, hw partition.Offset) Record { return Record{replica} }

// Faults replaces the list of corrupt ranges.
func Faults(replica partition.UUID, ranges []segment.Range) Record { return Record{replica} }

// Journal is a disk's replica-state stream. Safe for concurrent use.
type Journal struct{}

var errNotBuilt = errors.New("not built yet")

// Open reads the journal, or makes it, and gives the state it holds. The caller owns the state.
func Open(cfg Config) (*Journal, State, error) { return nil, State{}, errNotBuilt }

// Put takes in records, in order; they are durable after a Sync that begins later. It does not wait for the disk.
func (j *Journal) Put(records ...Record) error { return errNotBuilt }

// Sync makes everything Put before durable. Callers that come while another one's sync runs share the next. An error poisons the journal.
func (j *Journal) Sync() error { return errNotBuilt }

// Err tells why the journal is poisoned; nil if it is not.
func (j *Journal) Err() error { return errNotBuilt }

// Close syncs and closes.
func (j *Journal) Close() error { return errNotBuilt }
