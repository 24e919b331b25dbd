package data

import (
	"context"
	"strconv"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/peercapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// Peers takes what other brokers send; *peer.Receiver does.
type Peers interface {
	// Receive takes a frame with its body, which is its own from now on; in is not used after it returns. It does not wait. answer is called once,
	// when the frame's memory is free again or with why it is refused.
	Receive(from partition.NodeID, in peercapnp.Frame, body *frame.Buffer, answer func(error))
}

// peer hands on a frame of another broker, on the connection's goroutine: so the order of the wire is that of the deliveries.
func (s *Server) peer(_ context.Context, c *call) {
	from, err := brokerOf(c.req.Session.Hello)
	if err != nil {
		c.fail(err)
		return
	}
	in, err := c.req.Message.Peer()
	if err != nil || !in.IsValid() {
		c.fail(unreadable(err))
		return
	}
	s.cfg.Peers.Receive(from, in, c.req.TakeBody(), func(err error) {
		if err != nil {
			c.fail(err)
			return
		}
		c.reply(func(response wirecapnp.Response) error {
			response.SetPeer()
			return nil
		}, nil)
	})
}

// brokerOf gives the number of the broker that said this Hello.
func brokerOf(hello frame.HelloInfo) (partition.NodeID, error) {
	id, err := strconv.ParseUint(hello.ClientID, 10, 64)
	if err != nil || id == 0 {
		return 0, fault.Errorf(fault.Invalid, "a broker's clientId is its number, %q is none", hello.ClientID)
	}
	return partition.NodeID(id), nil
}

// positions tells the coordinator where replicas stand.
func (s *Server) positions(_ context.Context, c *call) error {
	in, err := c.req.Message.Positions()
	if err != nil || !in.IsValid() {
		return unreadable(err)
	}
	list, err := in.Partitions()
	if err != nil {
		return unreadable(err)
	}
	if n := list.Len(); n > positionsMax {
		return fault.Errorf(fault.TooLarge, "positions of %d partitions are asked, at most %d are told at once", n, positionsMax)
	}
	found := make([]Replica, list.Len())
	for i := range found {
		id, err := partitionOf(list.At(i), nil)
		if err != nil {
			return err
		}
		if r, ok := s.cfg.Replicas.Replica(id); ok {
			found[i] = r
		}
	}
	c.reply(func(response wirecapnp.Response) error { return fillPositions(response, found) }, nil)
	return nil
}

//nolint:wrapcheck // frame wraps it: the answer cannot be built.
func fillPositions(response wirecapnp.Response, found []Replica) error {
	reply, err := response.NewPositions()
	if err != nil {
		return err
	}
	list, err := reply.NewPositions(int32(len(found)))
	if err != nil {
		return err
	}
	for i, r := range found {
		if r == nil {
			continue
		}
		if err := fillPosition(list.At(i), r.ID(), r.State()); err != nil {
			return err
		}
	}
	return nil
}

//nolint:wrapcheck // frame wraps it: the answer cannot be built.
func fillPosition(out peercapnp.PositionsReply_Position, self partition.UUID, state replica.State) error {
	id, err := out.NewReplica()
	if err != nil {
		return err
	}
	hi, lo := self.Halves()
	id.SetHi(hi)
	id.SetLo(lo)
	out.SetKnown(true)
	out.SetPromised(uint64(state.Promised))
	out.SetFaulty(state.Faulty)
	out.SetLastEpoch(uint64(state.Epoch))
	out.SetEnd(uint64(state.End))
	out.SetHighWatermark(uint64(state.HighWatermark))
	return nil
}
