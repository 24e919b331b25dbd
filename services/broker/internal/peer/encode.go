package peer

import (
	"hash/crc32"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/peercapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// messageBytes and listEntryBytes are about what a message takes in a frame, and each entry of its lists.
const (
	messageBytes   = 192
	listEntryBytes = 16
)

// encodedBytes is about what a message takes in a frame, its body aside.
func encodedBytes(m *Message) int {
	if ok, is := m.Quorum.(quorum.PrepareOK); is {
		return messageBytes + listEntryBytes*(len(ok.Epochs)+len(ok.Faults))
	}
	return messageBytes
}

// fillFrame makes a request of messages.
func fillFrame(messages []Message) func(wirecapnp.Request) error {
	return func(request wirecapnp.Request) error {
		frame, err := request.NewPeer()
		if err != nil {
			return err //nolint:wrapcheck // frame wraps it: the request cannot be built.
		}
		list, err := frame.NewMessages(int32(len(messages)))
		if err != nil {
			return err //nolint:wrapcheck // as above.
		}
		for i := range messages {
			if err := fillMessage(list.At(i), &messages[i]); err != nil {
				return err
			}
		}
		return nil
	}
}

//nolint:wrapcheck // frame wraps it: the request cannot be built.
func fillMessage(out peercapnp.Message, m *Message) error {
	topic, err := out.NewTopic()
	if err != nil {
		return err
	}
	from, err := out.NewFrom()
	if err != nil {
		return err
	}
	to, err := out.NewTo()
	if err != nil {
		return err
	}
	setUUID(topic, m.Partition.Topic)
	setUUID(from, m.From.Replica)
	setUUID(to, m.To.Replica)
	out.SetPartition(uint32(m.Partition.Index))
	if m.Body != nil {
		out.SetBodyBytes(uint32(m.Body.Len()))
	}
	return fillQuorum(out, m)
}

func setUUID(out batchcapnp.Uuid, id partition.UUID) {
	hi, lo := id.Halves()
	out.SetHi(hi)
	out.SetLo(lo)
}

// fillQuorum writes the member of the union.
//
//nolint:wrapcheck // frame wraps it: the request cannot be built.
func fillQuorum(out peercapnp.Message, m *Message) error {
	switch q := m.Quorum.(type) {
	case quorum.Prepare:
		out.SetEpoch(uint64(q.Epoch))
		out.SetPrepare()
		return nil
	case quorum.PrepareOK:
		out.SetEpoch(uint64(q.Epoch))
		return fillPrepareOK(out, q)
	case quorum.Append:
		out.SetEpoch(uint64(q.Epoch))
		return fill(out.NewAppend, func(to peercapnp.Append) {
			to.SetPrev(uint64(q.Prev))
			to.SetPrevEpoch(uint64(q.PrevEpoch))
			to.SetPrevChain(q.PrevChain)
			to.SetUntil(uint64(q.Until))
			to.SetHighWatermark(uint64(q.HighWatermark))
			to.SetExported(uint64(m.Exported))
			to.SetRound(q.Round)
		})
	case quorum.AppendOK:
		out.SetEpoch(uint64(q.Epoch))
		return fill(out.NewAppendOk, func(to peercapnp.AppendOk) {
			to.SetMatch(uint64(q.Match))
			to.SetWritten(uint64(q.Written))
			to.SetHighWatermark(uint64(q.HighWatermark))
			to.SetRound(q.Round)
		})
	case quorum.Nack:
		out.SetEpoch(uint64(q.Epoch))
		return fill(out.NewNack, func(to peercapnp.Nack) {
			to.SetPromised(uint64(q.Promised))
			to.SetHintEpoch(uint64(q.Hint.Epoch))
			to.SetHintEnd(uint64(q.Hint.End))
			to.SetFull(q.Full)
			to.SetRound(q.Round)
		})
	case quorum.Fetch:
		out.SetEpoch(uint64(q.Epoch))
		return fill(out.NewFetch, func(to peercapnp.Fetch) {
			to.SetFrom(uint64(q.From))
			to.SetUntil(uint64(q.Until))
		})
	case quorum.Fetched:
		out.SetEpoch(uint64(q.Epoch))
		out.SetFetched()
		return nil
	case quorum.Install:
		out.SetEpoch(uint64(q.Epoch))
		return fill(out.NewInstall, func(to peercapnp.Install) {
			to.SetAt(uint64(q.At))
			to.SetChain(q.Chain)
			to.SetHighWatermark(uint64(q.HighWatermark))
			to.SetRound(q.Round)
			to.SetSize(q.Size)
			to.SetFrom(q.From)
			to.SetCrc(crc32.Checksum(q.Part, crc32.MakeTable(crc32.Castagnoli)))
		})
	default:
		return fault.Errorf(fault.Internal, "%T is not sent to peers", q)
	}
}

func fill[T any](build func() (T, error), set func(T)) error {
	to, err := build()
	if err == nil {
		set(to)
	}
	return err
}

//nolint:wrapcheck // frame wraps it: the request cannot be built.
func fillPrepareOK(out peercapnp.Message, q quorum.PrepareOK) error {
	to, err := out.NewPrepareOk()
	if err != nil {
		return err
	}
	to.SetLastEpoch(uint64(q.LastEpoch))
	to.SetStart(uint64(q.Start))
	to.SetEnd(uint64(q.End))
	to.SetChain(q.Chain)
	to.SetHighWatermark(uint64(q.HighWatermark))
	to.SetSuspect(q.Suspect)
	if err := fillEpochs(q.Epochs, to.NewEpochs); err != nil || len(q.Faults) == 0 {
		return err
	}
	faults, err := to.NewFaults(int32(len(q.Faults)))
	if err != nil {
		return err
	}
	for i, f := range q.Faults {
		faults.At(i).SetFrom(uint64(f.From))
		faults.At(i).SetTo(uint64(f.To))
	}
	return nil
}

func fillEpochs(epochs []quorum.EpochStart, build func(int32) (capnp.StructList[peercapnp.EpochStart], error)) error {
	if len(epochs) == 0 {
		return nil
	}
	list, err := build(int32(len(epochs)))
	if err != nil {
		return err
	}
	for i, e := range epochs {
		list.At(i).SetEpoch(uint64(e.Epoch))
		list.At(i).SetStart(uint64(e.Start))
	}
	return nil
}
