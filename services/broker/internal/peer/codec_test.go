package peer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"os"
	"testing"

	"capnproto.org/go/capnp/v3"
	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/peercapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

var createGolden = flag.Bool("create-golden", false, "write golden files that do not exist yet")

func member(broker int) partition.Member {
	return partition.Member{Broker: partition.NodeID(broker), Replica: partition.UUIDOf(9, uint64(broker))}
}

func partitionID(n int) partition.ID {
	return partition.ID{Topic: partition.UUIDOf(1, 2), Index: partition.Index(n)}
}

// stamped builds a batch of one record at an offset.
func stamped(t testing.TB, offset uint64, size int) []byte {
	t.Helper()
	var builder batch.Builder
	if err := builder.Add(batch.Record{Value: bytes.Repeat([]byte{'v'}, size), Timestamp: 1}); err != nil {
		t.Fatal(err)
	}
	msg, err := builder.Build(nil, batch.BuildOptions{})
	if err != nil {
		t.Fatal(err)
	}
	batch.Stamp(msg, batch.Stamps{BaseOffset: offset, Epoch: 3, AppendTime: 5, Chain: 7 + offset, PartitionTag: 11})
	return msg
}

func entry(t testing.TB, msg []byte) quorum.Entry {
	t.Helper()
	header, err := batch.ParseHeader(msg)
	if err != nil {
		t.Fatal(err)
	}
	return quorum.Entry{Header: header, Msg: msg}
}

// sample is a message of every kind, as it is sent and as it arrives.
func sample(t testing.TB) (sent, arrived []Message) {
	first, second := stamped(t, 100, 10), stamped(t, 101, 20)
	add := func(q, with quorum.Message, exported partition.Offset, body ...[]byte) {
		m := Message{Partition: partitionID(len(sent)), From: member(1), To: member(2), Quorum: q, Exported: exported}
		got := m
		got.Quorum = with
		if len(body) > 0 {
			m.Body = frame.Bytes(body...)
		}
		sent, arrived = append(sent, m), append(arrived, got)
	}
	same := func(q quorum.Message) { add(q, q, 0) }
	same(quorum.Prepare{Epoch: 4})
	same(quorum.PrepareOK{
		Epoch: 4, LastEpoch: 3, Start: 10, End: 102, Chain: 12345, HighWatermark: 99, Epochs: []quorum.EpochStart{{Epoch: 1}, {Epoch: 3, Start: 50}},
		Suspect: true, Faults: []quorum.Range{{From: 20, To: 30}, {From: 40, To: 41}},
	})
	same(quorum.PrepareOK{Epoch: 5})
	a := quorum.Append{Epoch: 3, Round: 8, Prev: 100, PrevEpoch: 2, PrevChain: 107, Until: 102, HighWatermark: 90}
	with := a
	with.Entries = []quorum.Entry{entry(t, first), entry(t, second)}
	add(a, with, 44, first, second)
	a.Prev, a.PrevChain = 102, 0
	add(a, a, 45)
	same(quorum.AppendOK{Epoch: 3, Round: 8, Match: 101, Written: 102, HighWatermark: 95})
	same(quorum.Nack{Epoch: 3, Round: 9, Promised: 6, Full: true, Hint: quorum.Hint{Epoch: 2, End: 80}})
	same(quorum.Fetch{Epoch: 4, From: 60, Until: 102})
	add(quorum.Fetched{Epoch: 4}, quorum.Fetched{Epoch: 4, Entries: []quorum.Entry{entry(t, first)}}, 0, first)
	same(quorum.Fetched{Epoch: 4})
	part := []byte("a part of a snapshot")
	install := quorum.Install{Epoch: 4, Round: 10, At: 64, Chain: 777, HighWatermark: 70, Size: 1000, From: 80, Part: part}
	add(install, install, 0, part)
	return sent, arrived
}

// encode makes a frame and its body.
func encode(t testing.TB, messages []Message) (message, body []byte) {
	t.Helper()
	all := &bodies{}
	for i := range messages {
		if messages[i].Body != nil {
			all.add(messages[i].Body)
		}
	}
	msg, segment := capnp.NewSingleSegmentMessage(nil)
	request, err := wirecapnp.NewRootRequest(segment)
	if err == nil {
		err = fillFrame(messages)(request)
	}
	if err != nil {
		t.Fatal(err)
	}
	message, err = msg.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := all.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	return message, out.Bytes()
}

func read(t testing.TB, message []byte) peercapnp.Frame {
	t.Helper()
	msg, err := capnp.Unmarshal(message)
	if err != nil {
		t.Fatal(err)
	}
	request, err := wirecapnp.ReadRootRequest(msg)
	if err != nil {
		t.Fatal(err)
	}
	in, err := request.Peer()
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// What is sent arrives: every field of every kind. The golden file is what version 1 is on the wire: nothing overwrites it.
func TestRoundTrip(t *testing.T) {
	sent, want := sample(t)
	message, body := encode(t, sent)
	got, err := decode(1, 2, read(t, message), body)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(decoded{messages: want}, got, cmp.AllowUnexported(decoded{})); diff != "" {
		t.Errorf("arrived otherwise (-sent +arrived):\n%s", diff)
	}
	const name = "testdata/v1/frame.bin"
	if *createGolden {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = f.Write(append(message, body...))
			err = errors.Join(err, f.Close())
		}
		t.Logf("create %s: %v", name, err)
	}
	golden, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(golden, append(message, body...)) {
		t.Errorf("the frame is not what %s holds", name)
	}
}

// Every list has room for everything that a message may say.
func TestEveryKindIsKnown(t *testing.T) {
	sent, _ := sample(t)
	kinds := map[string]bool{}
	message, _ := encode(t, sent)
	list, err := read(t, message).Messages()
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Len() {
		kinds[list.At(i).Which().String()] = true
	}
	for which := peercapnp.Message_Which(0); which.String() != "" && which <= peercapnp.Message_Which_install; which++ {
		if !kinds[which.String()] {
			t.Errorf("no message of kind %v is tested", which)
		}
	}
}

// A frame that lies about a length delivers nothing; a message whose bytes are damaged is left out and the others count (doc.go 3).
func TestLyingFrames(t *testing.T) {
	sent, want := sample(t)
	message, body := encode(t, sent)
	setBodyBytes := func(index int, n uint32) []byte {
		msg, err := capnp.Unmarshal(bytes.Clone(message))
		if err != nil {
			t.Fatal(err)
		}
		request, err := wirecapnp.ReadRootRequest(msg)
		if err != nil {
			t.Fatal(err)
		}
		in, err := request.Peer()
		if err != nil {
			t.Fatal(err)
		}
		list, err := in.Messages()
		if err != nil {
			t.Fatal(err)
		}
		list.At(index).SetBodyBytes(n)
		out, err := msg.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for name, test := range map[string]struct{ message, body []byte }{
		"a body longer than what came":     {setBodyBytes(3, 1<<31), body},
		"a body that takes from the next":  {setBodyBytes(3, uint32(len(body))), body},
		"bytes that belong to no message":  {message, append(bytes.Clone(body), 0)},
		"less than what was announced":     {message, body[:len(body)-1]},
		"nothing of what was announced":    {message, nil},
		"a body where none is allowed":     {setBodyBytes(0, 8), append(make([]byte, 8), body...)},
		"a shorter body than there really": {setBodyBytes(10, 19), body},
	} {
		t.Run(name, func(t *testing.T) {
			if d, err := decode(1, 2, read(t, test.message), test.body); !fault.Is(err, fault.Invalid) {
				t.Errorf("delivered %d, %v", len(d.messages), err)
			}
		})
	}
	t.Run("damage", func(t *testing.T) {
		from := 0
		for i, m := range sent {
			if m.Body == nil {
				continue
			}
			for at := from; at < from+m.Body.Len(); at++ {
				bad := bytes.Clone(body)
				bad[at] ^= 0x10
				d, err := decode(1, 2, read(t, message), bad)
				if err != nil || d.damaged != 1 || len(d.messages) != len(sent)-1 {
					t.Fatalf("byte %d of message %d damaged: %d delivered, %d damaged, %v", at-from, i, len(d.messages), d.damaged, err)
				}
			}
			from += m.Body.Len()
		}
	})
	t.Run("a list larger than the message", func(t *testing.T) {
		d, err := decode(1, 2, read(t, message), body)
		if err != nil || !cmp.Equal(want, d.messages) {
			t.Fatal("the undamaged frame is not taken", err)
		}
		msg, segment := capnp.NewSingleSegmentMessage(nil)
		request, _ := wirecapnp.NewRootRequest(segment)
		in, _ := request.NewPeer()
		// A list of structs without size can say that it has half a billion of them.
		empty, err := capnp.NewCompositeList(segment, capnp.ObjectSize{}, frameMessagesMax+1)
		if err != nil {
			t.Fatal(err)
		}
		if err := capnp.Struct(in).SetPtr(0, empty.ToPtr()); err != nil {
			t.Fatal(err)
		}
		raw, err := msg.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decode(1, 2, read(t, raw), nil); !fault.Is(err, fault.Invalid) {
			t.Errorf("a frame of %d messages is taken: %v", frameMessagesMax+1, err)
		}
	})
}

// Whatever a broker sends: no panic, and no entry that is not whole, verified and within what came.
func FuzzFrame(f *testing.F) {
	sent, _ := sample(f)
	message, body := encode(f, sent)
	f.Add(message, body)
	for _, m := range sent {
		message, body := encode(f, []Message{m})
		f.Add(message, body)
	}
	f.Fuzz(func(t *testing.T, message, body []byte) {
		msg, err := capnp.Unmarshal(message)
		if err != nil {
			return
		}
		request, err := wirecapnp.ReadRootRequest(msg)
		if err != nil || request.Which() != wirecapnp.Request_Which_peer {
			return
		}
		in, err := request.Peer()
		if err != nil {
			return
		}
		d, err := decode(1, 2, in, body)
		if err != nil {
			return
		}
		total := 0
		for i := range d.messages {
			total += checkDelivered(t, &d.messages[i])
		}
		if total > len(body) {
			t.Fatalf("%d bytes of batches in a body of %d", total, len(body))
		}
	})
}

func checkDelivered(t *testing.T, m *Message) (total int) {
	t.Helper()
	if m.From.Broker != 1 || m.To.Broker != 2 || m.Quorum == nil {
		t.Fatalf("delivered %+v", m)
	}
	var entries []quorum.Entry
	switch q := m.Quorum.(type) {
	case quorum.Append:
		entries = q.Entries
	case quorum.Fetched:
		entries = q.Entries
	case quorum.Install:
		total += len(q.Part)
	}
	for _, e := range entries {
		header, err := batch.ParseHeader(e.Msg)
		if err != nil || header != e.Header || batch.CheckBody(e.Msg) != nil || binary.LittleEndian.Uint32(e.Msg) != 0 {
			t.Fatalf("an entry is not what its bytes say: %v", err)
		}
		total += len(e.Msg)
	}
	return total
}
