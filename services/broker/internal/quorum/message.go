package quorum

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
)

// Entry is one batch of a log: its header, and its bytes where they are at hand.
type Entry struct {
	batch.Header
	Msg []byte
}

// EpochStart is where an epoch begins in a log.
type EpochStart struct {
	Epoch partition.Epoch
	Start partition.Offset
}

// Message is what two replicas of a partition say to each other.
type Message interface{ message() }

// Prepare asks a replica to promise Epoch and to report its log.
type Prepare struct{ Epoch partition.Epoch }

// PrepareOK says: Epoch is promised, durably, and so is the log described here.
type PrepareOK struct {
	Epoch         partition.Epoch
	LastEpoch     partition.Epoch
	Start, End    partition.Offset
	Chain         uint64 // of the batch that would follow
	HighWatermark partition.Offset
	Epochs        []EpochStart
	Suspect       bool    // an unproven tail was cut: fences, but is not complete evidence
	Faults        []Range // damaged here, in order: neither held nor lacking; fences, but is no evidence
}

// Range is [From, To) of a log.
type Range struct{ From, To partition.Offset }

// Append extends a log behind Prev. What the leader sends names a range; whoever carries it puts the entries of the range in, perhaps as
// several Appends that each continue the one before, of the same Round.
type Append struct {
	Epoch         partition.Epoch
	Round         uint64           // counts what the leader of this epoch sends; answers name it
	Prev          partition.Offset // the entries begin here
	PrevEpoch     partition.Epoch  // of the batch before; 0 = none
	PrevChain     uint64           // chain word of the batch at Prev; 0 without Entries = not known
	Until         partition.Offset // the entries end here; Prev = none
	HighWatermark partition.Offset
	Entries       []Entry
}

// AppendOK says: the log up to Match is verified against this epoch's leader and persisted, up to Written it is written.
type AppendOK struct {
	Epoch         partition.Epoch
	Round         uint64 // the highest of an Append that was taken
	Match         partition.Offset
	Written       partition.Offset
	HighWatermark partition.Offset // what the replica knows to be committed
}

// Nack refuses a Prepare, an Append or an Install of Epoch: with Promised above Epoch because a later leader was promised; with Full because
// the disk takes no appends now; else because the log does not hold the Append's Prev, and Hint says what it holds instead.
type Nack struct {
	Epoch    partition.Epoch
	Round    uint64 // of the Append; 0 for a Prepare
	Promised partition.Epoch
	Full     bool
	Hint     Hint
}

// Hint is the last epoch that a log holds at or below the Append's Prev, and where that epoch ends in it.
type Hint struct {
	Epoch partition.Epoch
	End   partition.Offset
}

// Fetch asks a replica that promised Epoch for the batches [From, Until).
type Fetch struct {
	Epoch       partition.Epoch
	From, Until partition.Offset
}

// Fetched answers a Fetch with whole batches from its From on.
type Fetched struct {
	Epoch   partition.Epoch
	Entries []Entry
}

// Install gives a replica whose log ends below the leader's local start what the partition was at At: its log begins there then. The state
// is a snapshot (fold) that comes in parts, in order; the answer to the last one is an AppendOK.
type Install struct {
	Epoch         partition.Epoch
	Round         uint64
	At            partition.Offset // where a segment of the leader begins; at or below HighWatermark
	Chain         uint64           // chain word of the batch at At
	HighWatermark partition.Offset
	Size          uint64 // of the whole snapshot
	From          uint64 // where this part begins in it
	Part          []byte // whoever carries it puts it in
}

func (Install) message()   {}
func (Prepare) message()   {}
func (PrepareOK) message() {}
func (Append) message()    {}
func (AppendOK) message()  {}
func (Nack) message()      {}
func (Fetch) message()     {}
func (Fetched) message()   {}
