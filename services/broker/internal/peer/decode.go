package peer

import (
	"math"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/peercapnp"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// decoded is a frame taken apart. Its messages alias the frame's body.
type decoded struct {
	messages []Message
	damaged  int // messages whose batches are not what their checksums say
}

// decode takes a frame apart. An error says that the frame itself cannot be right; nothing of it is to be used then. A message whose batches
// are damaged is left out.
func decode(from, self partition.NodeID, frame peercapnp.Frame, body []byte) (decoded, error) {
	var d decoded
	list, err := frame.Messages()
	if err != nil {
		return d, unreadable(err)
	}
	if n := list.Len(); n > frameMessagesMax {
		return d, fault.Errorf(fault.Invalid, "frame has %d messages, at most %d are allowed", n, frameMessagesMax)
	}
	d.messages = make([]Message, 0, min(list.Len(), 64)) // more as they turn out to be there
	for i := range list.Len() {
		in := list.At(i)
		size := uint64(in.BodyBytes())
		if size > uint64(len(body)) {
			return d, fault.Errorf(fault.Invalid, "message %d has a body of %d bytes, %d are left in the frame's", i, size, len(body))
		}
		m, damage, err := decodeMessage(in, body[:size:size])
		if err != nil {
			return d, err
		}
		body = body[size:]
		if damage != nil {
			d.damaged++
			continue
		}
		m.From.Broker, m.To.Broker = from, self
		d.messages = append(d.messages, m)
	}
	if len(body) > 0 {
		return d, fault.Errorf(fault.Invalid, "the frame's body has %d bytes that belong to no message", len(body))
	}
	return d, nil
}

func unreadable(err error) error { return fault.Errorf(fault.Invalid, "frame is unreadable: %w", err) }

// decodeMessage takes one message apart. damage says that its batches are not to be used.
func decodeMessage(in peercapnp.Message, body []byte) (m Message, damage, err error) {
	topic, err := uuidOf(in.Topic())
	if err != nil {
		return m, nil, err
	}
	if m.From.Replica, err = uuidOf(in.From()); err != nil {
		return m, nil, err
	}
	if m.To.Replica, err = uuidOf(in.To()); err != nil {
		return m, nil, err
	}
	m.Partition = partition.ID{Topic: topic, Index: partition.Index(in.Partition())}
	switch in.Which() {
	case peercapnp.Message_Which_append, peercapnp.Message_Which_fetched:
	default:
		if len(body) > 0 {
			return m, nil, fault.Errorf(fault.Invalid, "%v has a body of %d bytes, it must have none", in.Which(), len(body))
		}
	}
	entries, damage := entriesOf(body)
	m.Quorum, m.Exported, err = decodeQuorum(in, entries)
	return m, damage, err
}

func uuidOf(in batchcapnp.Uuid, err error) (partition.UUID, error) {
	if err != nil {
		return partition.UUID{}, unreadable(err)
	}
	return partition.UUIDOf(in.Hi(), in.Lo()), nil
}

// entriesOf takes batches apart and verifies their headers and bodies.
func entriesOf(body []byte) ([]quorum.Entry, error) {
	var entries []quorum.Entry
	for msg, err := range batch.Each(body) {
		if err != nil {
			return nil, err //nolint:wrapcheck // counted, not told.
		}
		header, err := batch.ParseHeader(msg)
		if err == nil {
			err = batch.CheckBody(msg)
		}
		if err != nil {
			return nil, err //nolint:wrapcheck // counted, not told.
		}
		entries = append(entries, quorum.Entry{Header: header, Msg: msg})
	}
	return entries, nil
}

// decodeQuorum reads the member of the union.
func decodeQuorum(in peercapnp.Message, entries []quorum.Entry) (quorum.Message, partition.Offset, error) {
	epoch := partition.Epoch(in.Epoch())
	switch in.Which() {
	case peercapnp.Message_Which_prepare:
		return quorum.Prepare{Epoch: epoch}, 0, nil
	case peercapnp.Message_Which_prepareOk:
		ok, err := decodePrepareOK(in, epoch)
		return ok, 0, err
	case peercapnp.Message_Which_append:
		a, err := in.Append()
		if err != nil {
			return nil, 0, unreadable(err)
		}
		return quorum.Append{
			Epoch: epoch, Prev: offset(a.Prev()), PrevEpoch: partition.Epoch(a.PrevEpoch()), PrevChain: a.PrevChain(),
			Until: offset(a.Until()), HighWatermark: offset(a.HighWatermark()), Entries: entries,
		}, offset(a.Exported()), nil
	case peercapnp.Message_Which_appendOk:
		ok, err := in.AppendOk()
		if err != nil {
			return nil, 0, unreadable(err)
		}
		return quorum.AppendOK{Epoch: epoch, Match: offset(ok.Match()), Written: offset(ok.Written())}, 0, nil
	case peercapnp.Message_Which_nack:
		n, err := in.Nack()
		if err != nil {
			return nil, 0, unreadable(err)
		}
		hint := quorum.Hint{Epoch: partition.Epoch(n.HintEpoch()), End: offset(n.HintEnd())}
		return quorum.Nack{Epoch: epoch, Promised: partition.Epoch(n.Promised()), Hint: hint}, 0, nil
	case peercapnp.Message_Which_fetch:
		f, err := in.Fetch()
		if err != nil {
			return nil, 0, unreadable(err)
		}
		return quorum.Fetch{Epoch: epoch, From: offset(f.From()), Until: offset(f.Until())}, 0, nil
	case peercapnp.Message_Which_fetched:
		return quorum.Fetched{Epoch: epoch, Entries: entries}, 0, nil
	default:
		return nil, 0, fault.Errorf(fault.UnsupportedVersion, "message of kind %v is not known to this build", in.Which())
	}
}

// offset holds a number from the wire below where arithmetic with it could wrap.
func offset(n uint64) partition.Offset { return partition.Offset(min(n, math.MaxInt64)) }

func decodePrepareOK(in peercapnp.Message, epoch partition.Epoch) (quorum.PrepareOK, error) {
	ok, err := in.PrepareOk()
	if err != nil {
		return quorum.PrepareOK{}, unreadable(err)
	}
	epochs, err := decodeEpochs(ok.Epochs())
	return quorum.PrepareOK{
		Epoch: epoch, LastEpoch: partition.Epoch(ok.LastEpoch()), Start: offset(ok.Start()), End: offset(ok.End()), Chain: ok.Chain(),
		HighWatermark: offset(ok.HighWatermark()), Epochs: epochs, Suspect: ok.Suspect(),
	}, err
}

// decodeEpochs reads what has come: the list lies in the message, whose size is limited.
func decodeEpochs(list capnp.StructList[peercapnp.EpochStart], err error) ([]quorum.EpochStart, error) {
	if err != nil {
		return nil, unreadable(err)
	}
	if n := list.Len(); n > epochsMax {
		return nil, fault.Errorf(fault.Invalid, "message has %d epochs, at most %d are allowed", n, epochsMax)
	}
	var epochs []quorum.EpochStart
	for i := range list.Len() {
		e := list.At(i)
		epochs = append(epochs, quorum.EpochStart{Epoch: partition.Epoch(e.Epoch()), Start: offset(e.Start())})
	}
	return epochs, nil
}
