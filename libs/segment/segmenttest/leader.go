package segmenttest

import (
	"bytes"
	"testing"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// Tag is the partition tag of a Leader's batches.
const Tag = 0x7a67

// Leader stamps batches. Its fields are the stamps of the next one.
type Leader struct {
	TB         testing.TB
	End, Base  partition.Offset // its offset, and its segment's
	Chain      uint64
	Epoch      uint64
	AppendTime int64            // of the last one, microseconds since 1970; the next is 10 later
	HW         partition.Offset // its commitHint

	serial uint64
}

// New makes the leader of an empty log in epoch 1.
func New(tb testing.TB) *Leader { return &Leader{TB: tb, Epoch: 1, AppendTime: 1000} }

// Data makes a batch of n records with values of size bytes; cut starts a new segment with it.
func (l *Leader) Data(n, size int, cut bool) []byte {
	l.TB.Helper()
	var builder batch.Builder
	for i := range n {
		l.serial++
		value := bytes.Repeat([]byte{byte(l.serial), byte(l.serial >> 8), byte(i)}, size/3+1)[:size]
		if err := builder.Add(batch.Record{Value: value, Timestamp: l.AppendTime}); err != nil {
			l.TB.Fatalf("add a record: %v", err)
		}
	}
	msg, err := builder.Build(nil, batch.BuildOptions{})
	if err != nil {
		l.TB.Fatalf("build a batch: %v", err)
	}
	return l.Stamp(msg, cut)
}

// Control makes a control batch (a TrimTo of the high watermark).
func (l *Leader) Control(cut bool) []byte {
	l.TB.Helper()
	msg, err := batch.BuildControl(nil, func(c batchcapnp.Control) error {
		trim, err := c.NewTrimTo()
		if err == nil {
			trim.SetOffset(uint64(l.HW))
		}
		return err
	})
	if err != nil {
		l.TB.Fatalf("build a control batch: %v", err)
	}
	return l.Stamp(msg, cut)
}

// Stamp stamps a message and goes on behind it.
func (l *Leader) Stamp(msg []byte, cut bool) []byte {
	l.TB.Helper()
	if cut {
		l.Base = l.End
	}
	l.AppendTime += 10
	batch.Stamp(msg, batch.Stamps{
		SegmentBase: uint64(l.Base), BaseOffset: uint64(l.End), Epoch: l.Epoch, AppendTime: l.AppendTime,
		Chain: l.Chain, CommitHint: uint64(l.HW), PartitionTag: Tag,
	})
	l.End, l.Chain = partition.Offset(l.Header(msg).NextOffset()), batch.NextChain(msg)
	return msg
}

// Header parses a message's header.
func (l *Leader) Header(msg []byte) batch.Header {
	l.TB.Helper()
	h, err := batch.ParseHeader(msg)
	if err != nil {
		l.TB.Fatalf("parse a header: %v", err)
	}
	return h
}
