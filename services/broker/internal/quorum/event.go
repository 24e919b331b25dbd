package quorum

import (
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Event is something that happened to a replica.
type Event interface{ event() }

// Assigned says what the topology has for the partition, as of Revision of its key. Watched and re-read values alike.
type Assigned struct {
	Assignment topology.Assignment
	Revision   int64
	// Reread marks the answer to a Reread effect: the value is current.
	Reread bool
	Time   int64 // now, microseconds since 1970
}

// Promised says: the journal holds the promise of Epoch, durably.
type Promised struct{ Epoch partition.Epoch }

// Received says: another replica sent a message.
type Received struct {
	From    partition.Member
	Message Message
}

// Propose says: the leader's clients, or the leader itself, have batches to append, unstamped and in this order. Only while CanPropose. The
// headers of the entries are brought up to date and their bytes stamped in place.
type Propose struct {
	Entries []Entry
	Time    int64 // now, microseconds since 1970
}

// Written says: of generation Generation of the log, everything below End is in the page cache.
type Written struct {
	Generation uint64
	End        partition.Offset
}

// Persisted says: of generation Generation of the log, everything below End is on disk.
type Persisted struct {
	Generation uint64
	End        partition.Offset
}

// Unwritten says: the disk is full; of generation Generation nothing at or above From was written.
type Unwritten struct {
	Generation uint64
	From       partition.Offset
}

// Activation is the result of an Activate effect.
type Activation struct {
	Epoch partition.Epoch
	Won   bool // false: lost, or unknown
}

// Tick says: time has passed.
type Tick struct {
	Elapsed time.Duration // since the State was made; monotonic
	Time    int64         // now, microseconds since 1970
}

// SealRequested says: somebody wants the open segment cut. Nothing happens unless it holds records and this replica leads.
type SealRequested struct{ Time int64 }

// Damaged says: these ranges of the log, in order, are all that cannot be read. None: all of it can.
type Damaged struct{ Ranges []Range }

// ReadIndex asks for ReadIndexed. One at a time; only while Leads.
type ReadIndex struct{}

// Configured says: the topic's settings changed.
type Configured struct {
	Cut            CutPolicy
	Counting       Counting
	SyncEveryGroup bool
}

func (Assigned) event()      {}
func (Promised) event()      {}
func (Received) event()      {}
func (Propose) event()       {}
func (Written) event()       {}
func (Persisted) event()     {}
func (Unwritten) event()     {}
func (Activation) event()    {}
func (Tick) event()          {}
func (SealRequested) event() {}
func (Damaged) event()       {}
func (Configured) event()    {}
func (ReadIndex) event()     {}

// Effect is something the replica has to do, in the order given.
type Effect interface{ effect() }

// PersistPromise asks: make the promise of Epoch durable in the journal, then answer Promised.
type PersistPromise struct{ Epoch partition.Epoch }

// AppendLog asks: write the entries behind what was written before, then answer Written.
type AppendLog struct {
	Generation uint64
	Entries    []Entry
	End        partition.Offset
}

// SyncLog asks: persist what was appended up to here, then answer Persisted.
type SyncLog struct {
	Generation uint64
	End        partition.Offset
}

// TruncateLog asks: cut the log at To, before any later effect touches it. The generation is new.
type TruncateLog struct {
	Generation uint64
	To         partition.Offset
}

// Activate asks: compare-and-swap the assignment of Epoch, read at Revision, to ACTIVE with its start; then answer Activation.
type Activate struct {
	Epoch    partition.Epoch
	Revision int64
	Start    partition.Offset
}

// Reread asks: read the assignment linearizably, then answer Assigned with Reread set.
type Reread struct{ Epoch partition.Epoch }

// Send asks: give a member a message. An Append names the range [Prev, Until) to be read from the log, as far as it is written.
type Send struct {
	To      partition.Member
	Message Message
	Lazy    bool // an Append that tells the high watermark only: it may wait for others
}

// ServeFetch asks: read [From, Until) from the log and send it to To as Fetched.
type ServeFetch struct {
	To          partition.Member
	Epoch       partition.Epoch
	From, Until partition.Offset
}

// Reinstall asks: give To what the partition was at the start of the local log, as Installs of Epoch and Round; it has nothing that goes on
// from there. Asked again as long as that is so.
type Reinstall struct {
	To    partition.Member
	Epoch partition.Epoch
	Round uint64
}

// TakeInstall asks: collect the parts, and when all are there begin the log anew at Install.At.
type TakeInstall struct{ Install Install }

// Mend gives batches of the first damaged range: First those at its start, then what goes on from there, and with Last the end of it. Then:
// put them in its place, and say Damaged.
type Mend struct {
	Entries     []Entry
	First, Last bool
}

// Commit says: the high watermark is now HighWatermark; a majority has persisted everything below Persisted.
type Commit struct {
	HighWatermark partition.Offset
	Persisted     partition.Offset
}

// Cut says: the segment [Base, End) gets no more batches.
type Cut struct{ Base, End partition.Offset }

// Lead says: the epoch is active and this replica leads it.
type Lead struct {
	Epoch partition.Epoch
	Start partition.Offset
	Lossy bool // records that were acknowledged before are gone
}

// StepDown says: this replica no longer leads, or tries to lead, Epoch. The outcome of what was proposed and not committed is unknown.
type StepDown struct {
	Epoch  partition.Epoch
	Reason string
}

// CaughtUp says: a suspect end (PrepareOK.Suspect) is evidence again, since a leader's EpochStart is durable behind what it may have lost.
type CaughtUp struct{}

// Unfit says: this replica was nominated and does not stand for election, because it cannot lead.
type Unfit struct {
	Epoch  partition.Epoch
	Reason string
}

// ReadIndexed says: this process led when the ReadIndex came, and everything acknowledged by then is below HighWatermark.
type ReadIndexed struct{ HighWatermark partition.Offset }

// Quarantine says: the replica must not take part any more; a person has to look.
type Quarantine struct{ Reason string }

func (PersistPromise) effect() {}
func (AppendLog) effect()      {}
func (SyncLog) effect()        {}
func (TruncateLog) effect()    {}
func (Activate) effect()       {}
func (Reread) effect()         {}
func (Send) effect()           {}
func (ServeFetch) effect()     {}
func (Commit) effect()         {}
func (Cut) effect()            {}
func (Lead) effect()           {}
func (StepDown) effect()       {}
func (CaughtUp) effect()       {}
func (Unfit) effect()          {}
func (Quarantine) effect()     {}
func (Reinstall) effect()      {}
func (Mend) effect()           {}
func (TakeInstall) effect()    {}
func (ReadIndexed) effect()    {}
