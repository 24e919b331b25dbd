package data_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/peercapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// askedFrame is a frame that came.
type askedFrame struct {
	From partition.NodeID
	Body string
}

func (f *fake) Receive(from partition.NodeID, _ peercapnp.Frame, body *frame.Buffer, answer func(error)) {
	var content string
	if body != nil {
		content = string(body.Bytes())
	}
	body.Release()
	answer(f.note(askedFrame{from, content}))
}

// A frame reaches its receiver with its body and the number of the broker that sent it, and is answered as the receiver says.
func TestPeer(t *testing.T) {
	f := &fake{}
	_, addr := serve(t, f)
	client := dial(t, addr, wirecapnp.Role_broker)
	send := func() error {
		reply, err := client.Call(t.Context(), callsOf()[wirecapnp.Request_Which_peer], []byte("batches"))
		if err == nil {
			reply.Release()
		}
		return err
	}
	if err := send(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(askedFrame{2, "batches"}, f.last()); diff != "" {
		t.Error(diff)
	}
	f.err = fault.Errorf(fault.Invalid, "the frame lies")
	wantFault(t, send(), fault.Invalid)
}

// fillPositions asks for n partitions, the known one and ones that are nowhere.
func fillPositions(r wirecapnp.Request, n int32) error {
	in, err := r.NewPositions()
	if err != nil {
		return err
	}
	list, err := in.NewPartitions(n)
	if err != nil {
		return err
	}
	for i := range list.Len() {
		about(list.At(i))
		list.At(i).SetPartition(uint32(known.Index) + uint32(i))
	}
	return nil
}

// The coordinator learns where the replicas here stand, in the order asked, and which are not here.
func TestPositions(t *testing.T) {
	_, addr := serve(t, &fake{})
	reply, err := dial(t, addr, wirecapnp.Role_coordinator).Call(t.Context(), func(r wirecapnp.Request) error { return fillPositions(r, 2) })
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Release()
	out, err := reply.Response.Positions()
	if err != nil {
		t.Fatal(err)
	}
	list, err := out.Positions()
	if err != nil || list.Len() != 2 {
		t.Fatalf("%d positions, %v", list.Len(), err)
	}
	first, second := list.At(0), list.At(1)
	id, err := first.Replica()
	if err != nil || !first.Known() || first.LastEpoch() != 5 || first.End() != 21 || first.HighWatermark() != 20 || id.Hi() != 5 || id.Lo() != 6 {
		t.Errorf("the known one stands at %v, %v", first, err)
	}
	if second.Known() {
		t.Error("a replica that is nowhere is known")
	}
}

// What the leader knows of the other replicas reaches whoever describes the partition.
func TestStandings(t *testing.T) {
	_, addr := serve(t, &fake{})
	reply, err := dial(t, addr, wirecapnp.Role_gateway).Call(t.Context(), func(r wirecapnp.Request) error {
		in, err := r.NewPartitionState()
		about(in)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer reply.Release()
	out, err := reply.Response.PartitionState()
	if err != nil {
		t.Fatal(err)
	}
	list, err := out.Replicas()
	if err != nil || list.Len() != 1 {
		t.Fatalf("%d replicas, %v", list.Len(), err)
	}
	r := list.At(0)
	id, err := r.Replica()
	if err != nil || r.Broker() != 3 || !r.Learner() || r.Match() != 18 || r.HighWatermark() != 17 || r.LastHeardMillis() != 1500 || id.Hi() != 3 || id.Lo() != 4 {
		t.Errorf("replica %v, %v", r, err)
	}
}
