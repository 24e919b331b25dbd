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
	Suspect       bool   // an unproven tail was cut: fences, but is not complete evidence
	Faults        []Span // what of the log cannot be read: fences, but is no evidence
}

// Append extends a log behind Prev. What the leader sends names a range; whoever carries it puts the entries of the range in.
type Append struct {
	Epoch         partition.Epoch
	Prev          partition.Offset // the entries begin here
	PrevEpoch     partition.Epoch  // of the batch before; 0 = none
	PrevChain     uint64           // chain word of the batch at Prev
	Until         partition.Offset // the entries end here; Prev = none
	HighWatermark partition.Offset
	Entries       []Entry
}

// AppendOK says: the log up to Match is verified against this epoch's leader and persisted, up to Written it is written.
type AppendOK struct {
	Epoch   partition.Epoch
	Match   partition.Offset
	Written partition.Offset
}

// Nack refuses a Prepare or an Append of Epoch: with Promised above Epoch because a later leader was promised; else because the log does
// not hold the Append's Prev, and Hint says what it holds instead.
type Nack struct {
	Epoch    partition.Epoch
	Promised partition.Epoch
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

func (Prepare) message()   {}
func (PrepareOK) message() {}
func (Append) message()    {}
func (AppendOK) message()  {}
func (Nack) message()      {}
func (Fetch) message()     {}
func (Fetched) message()   {}
