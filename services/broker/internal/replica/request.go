package replica

import (
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/wal"
)

// Publish is one batch to append.
type Publish struct {
	// Msg is one whole unstamped batch whose body checksum and limits, the topic's included, are verified. It belongs to the replica, which
	// stamps it in place, until Release is called.
	Msg []byte
	// Release is called once, from any goroutine, when Msg is no longer used; also when Done reports an error. nil = nothing to release.
	Release func()
	// Epoch is the highest the caller has seen, 0 = none.
	Epoch partition.Epoch
	// Canceled is closed when nobody waits for the result any more; nil = never. A batch that is not appended by then is not appended.
	Canceled <-chan struct{}
	// AckNone: Done is called when the batch is admitted, with durability none and no offset known.
	AckNone bool
	// Done is called exactly once, from any goroutine, perhaps before Publish returns. It must not block.
	//
	// Errors: Invalid, NotLeader, StaleEpoch, Overloaded, DiskFull, DiskPoisoned, SequenceReused, OutOfOrder, UnknownProducer,
	// DeadlineExceeded, Unavailable: nothing was appended. OutcomeUnknown: perhaps it was.
	Done func(Published, error)
}

// Published is what became of a batch.
type Published struct {
	BaseOffset    partition.Offset
	LastOffset    partition.Offset
	OffsetKnown   bool // false: an old duplicate, stored long ago, or AckNone
	Duplicate     bool
	Epoch         partition.Epoch
	HighWatermark partition.Offset
	LogStart      partition.Offset
	AppendTime    int64 // microseconds since 1970; 0 where the offset is not known, and for duplicates
	Durability    wirecapnp.Durability
}

// Fetch asks for whole batches from Offset on.
type Fetch struct {
	Offset   partition.Offset
	Epoch    partition.Epoch // the highest the caller has seen, 0 = none
	MaxBytes int             // 0 = FetchBytesDefault; one whole batch is returned even if larger
	Wait     time.Duration   // how long to wait for a batch at Offset
}

// Fetched is what a Fetch gave.
type Fetched struct {
	Epoch         partition.Epoch
	HighWatermark partition.Offset
	LogStart      partition.Offset
	LocalStart    partition.Offset
	NextOffset    partition.Offset // where to read on; Offset where nothing came
	Durability    wirecapnp.Durability
	Chunk         *wal.Chunk // nil = no bytes; the caller closes it
}

// Where names a place in a log.
type Where uint8

// Places.
const (
	Earliest Where = iota
	Latest
	AtTime
)

// ListOffset asks where a place is.
type ListOffset struct {
	Where Where
	Time  int64 // of AtTime: the first offset whose append time is >= this, microseconds since 1970; the high watermark if none
	Epoch partition.Epoch
}

// ListedOffset is where a place is.
type ListedOffset struct {
	Offset        partition.Offset
	Epoch         partition.Epoch
	HighWatermark partition.Offset
	LogStart      partition.Offset
	LocalStart    partition.Offset
}

// State is what a replica says about itself.
type State struct {
	Epoch         partition.Epoch
	HighWatermark partition.Offset
	LogStart      partition.Offset
	LocalStart    partition.Offset
	End           partition.Offset
	SealedEnd     partition.Offset
	TierEnd       partition.Offset
	ExportedEnd   partition.Offset
	SizeBytes     uint64               // local
	Durability    wirecapnp.Durability // what acks say now
	Active        bool                 // leads and serves
	Damaged       int                  // ranges of the log that cannot be read
	Lossy         bool                 // the epoch began without records that were acknowledged before
	Promised      partition.Epoch      // no leader of an earlier one is followed
	Leader        partition.NodeID     // of the newest epoch that is known, 0 = none
	Faulty        bool                 // cannot lead: damaged, or stopped
}

// Standing is where a member or learner stands, as the leader knows it.
type Standing struct {
	Member        partition.Member
	Learner       bool
	Match         partition.Offset // it has the leader's log up to here on disk, without a hole (R11)
	HighWatermark partition.Offset // that it says it knows
	LastHeard     time.Duration    // ago; the leader itself: 0
}

// SealResult is how far a log is sealed.
type SealResult struct {
	SealedEnd     partition.Offset
	HighWatermark partition.Offset
	Sealed        bool // false: the open segment held no records
}

// TrimResult is where a log starts after a trim.
type TrimResult struct {
	LogStart   partition.Offset
	LocalStart partition.Offset
}
