package peer

import (
	"hash/crc32"
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

// decodeMessage takes one message apart. damage says that its body is not to be used.
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
	var entries []quorum.Entry
	switch in.Which() {
	case peercapnp.Message_Which_append:
		if entries, damage = entriesOf(body); damage == nil {
			m.Quorum, m.Exported, err = decodeAppend(in, entries)
		}
	case peercapnp.Message_Which_fetched:
		entries, damage = entriesOf(body)
		m.Quorum = quorum.Fetched{Epoch: partition.Epoch(in.Epoch()), Entries: entries}
	case peercapnp.Message_Which_install:
		m.Quorum, damage, err = decodeInstall(in, body)
	default:
		if len(body) > 0 {
			return m, nil, fault.Errorf(fault.Invalid, "%v has a body of %d bytes, it must have none", in.Which(), len(body))
		}
		m.Quorum, err = decodeQuorum(in)
	}
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

func decodeAppend(in peercapnp.Message, entries []quorum.Entry) (quorum.Message, partition.Offset, error) {
	a, err := in.Append()
	if err != nil {
		return nil, 0, unreadable(err)
	}
	return quorum.Append{
		Epoch: partition.Epoch(in.Epoch()), Round: a.Round(), Prev: offset(a.Prev()), PrevEpoch: partition.Epoch(a.PrevEpoch()),
		PrevChain: a.PrevChain(), Until: offset(a.Until()), HighWatermark: offset(a.HighWatermark()), Entries: entries,
	}, offset(a.Exported()), nil
}

// decodeInstall takes a part of a snapshot. What a snapshot says is checked by whoever opens it.
func decodeInstall(in peercapnp.Message, body []byte) (m quorum.Message, damage, err error) {
	i, err := in.Install()
	if err != nil {
		return nil, nil, unreadable(err)
	}
	if got := crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)); got != i.Crc() {
		damage = fault.Errorf(fault.Corrupt, "part of a snapshot has checksum %#08x, says %#08x", got, i.Crc())
	}
	return quorum.Install{
		Epoch: partition.Epoch(in.Epoch()), Round: i.Round(), At: offset(i.At()), Chain: i.Chain(), HighWatermark: offset(i.HighWatermark()),
		Size: i.Size(), From: i.From(), Part: body,
	}, damage, nil
}

// decodeQuorum reads the members of the union that have no body.
func decodeQuorum(in peercapnp.Message) (quorum.Message, error) {
	epoch := partition.Epoch(in.Epoch())
	switch in.Which() {
	case peercapnp.Message_Which_prepare:
		return quorum.Prepare{Epoch: epoch}, nil
	case peercapnp.Message_Which_prepareOk:
		return decodePrepareOK(in, epoch)
	case peercapnp.Message_Which_appendOk:
		ok, err := in.AppendOk()
		if err != nil {
			return nil, unreadable(err)
		}
		return quorum.AppendOK{
			Epoch: epoch, Round: ok.Round(), Match: offset(ok.Match()), Written: offset(ok.Written()), HighWatermark: offset(ok.HighWatermark()),
		}, nil
	case peercapnp.Message_Which_nack:
		n, err := in.Nack()
		if err != nil {
			return nil, unreadable(err)
		}
		hint := quorum.Hint{Epoch: partition.Epoch(n.HintEpoch()), End: offset(n.HintEnd())}
		return quorum.Nack{Epoch: epoch, Round: n.Round(), Promised: partition.Epoch(n.Promised()), Full: n.Full(), Hint: hint}, nil
	case peercapnp.Message_Which_fetch:
		f, err := in.Fetch()
		if err != nil {
			return nil, unreadable(err)
		}
		return quorum.Fetch{Epoch: epoch, From: offset(f.From()), Until: offset(f.Until())}, nil
	default:
		return nil, fault.Errorf(fault.UnsupportedVersion, "message of kind %v is not known to this build", in.Which())
	}
}

// offset holds a number from the wire below where arithmetic with it could wrap.
func offset(n uint64) partition.Offset { return partition.Offset(min(n, math.MaxInt64)) }

func decodePrepareOK(in peercapnp.Message, epoch partition.Epoch) (quorum.Message, error) {
	ok, err := in.PrepareOk()
	if err != nil {
		return nil, unreadable(err)
	}
	epochs, err := decodeEpochs(ok.Epochs())
	if err != nil {
		return nil, err
	}
	faults, err := decodeRanges(ok.Faults())
	if err != nil {
		return nil, err
	}
	return quorum.PrepareOK{
		Epoch: epoch, LastEpoch: partition.Epoch(ok.LastEpoch()), Start: offset(ok.Start()), End: offset(ok.End()), Chain: ok.Chain(),
		HighWatermark: offset(ok.HighWatermark()), Epochs: epochs, Suspect: ok.Suspect(), Faults: faults,
	}, nil
}

func decodeEpochs(list capnp.StructList[peercapnp.EpochStart], err error) ([]quorum.EpochStart, error) {
	if err := checkList(list.Len(), err); err != nil {
		return nil, err
	}
	var epochs []quorum.EpochStart
	for i := range list.Len() {
		e := list.At(i)
		epochs = append(epochs, quorum.EpochStart{Epoch: partition.Epoch(e.Epoch()), Start: offset(e.Start())})
	}
	return epochs, nil
}

func decodeRanges(list capnp.StructList[peercapnp.Range], err error) ([]quorum.Range, error) {
	if err := checkList(list.Len(), err); err != nil {
		return nil, err
	}
	var ranges []quorum.Range
	for i := range list.Len() {
		r := list.At(i)
		ranges = append(ranges, quorum.Range{From: offset(r.From()), To: offset(r.To())})
	}
	return ranges, nil
}

// checkList bounds what a list says it has before it is walked.
func checkList(n int, err error) error {
	if err != nil {
		return unreadable(err)
	}
	if n > listMax {
		return fault.Errorf(fault.Invalid, "list in a message has %d entries, at most %d are allowed", n, listMax)
	}
	return nil
}
