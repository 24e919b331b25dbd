package data

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// fetch reads committed batches, waiting for some if it was asked to.
func (s *Server) fetch(ctx context.Context, c *call) error {
	in, err := c.req.Message.Fetch()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	maxBytes := int(in.MaxBytes())
	if maxBytes == 0 {
		maxBytes = fetchBytesDefault
	}
	polling, done := s.polling(ctx)
	got, err := r.Fetch(polling, replica.Fetch{
		Offset:   partition.Offset(in.Offset()),
		Epoch:    partition.Epoch(in.Epoch()),
		MaxBytes: min(maxBytes, fetchBytesMax),
		Wait:     s.wait(ctx, in.WaitMillis()),
	})
	if err = done(err); err != nil {
		return fault.Wrap("fetch from "+id.String(), err)
	}
	var body frame.Body
	if got.Chunk != nil {
		body = got.Chunk
	}
	c.reply(func(response wirecapnp.Response) error { return fillFetched(response, got) }, body)
	return nil
}

// wait is how long a long poll waits: not so long that the caller's deadline passes before it has the answer.
func (s *Server) wait(ctx context.Context, millis uint32) time.Duration {
	wait := min(time.Duration(millis)*time.Millisecond, waitMax)
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, deadline.Sub(s.cfg.Clock.Now())*9/10)
	}
	return max(wait, 0)
}

func fillFetched(response wirecapnp.Response, got replica.Fetched) error {
	out, err := response.NewFetch()
	if err != nil {
		return err //nolint:wrapcheck // frame wraps it.
	}
	out.SetEpoch(uint64(got.Epoch))
	out.SetHighWatermark(uint64(got.HighWatermark))
	out.SetLogStart(uint64(got.LogStart))
	out.SetLocalStart(uint64(got.LocalStart))
	out.SetNextOffset(uint64(got.NextOffset))
	out.SetDurability(got.Durability)
	return nil
}

// listOffsets finds a place in the log.
func (s *Server) listOffsets(ctx context.Context, c *call) error {
	in, err := c.req.Message.ListOffsets()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	at := replica.ListOffset{Epoch: partition.Epoch(in.Epoch())}
	switch in.Which() {
	case wirecapnp.ListOffsetsRequest_Which_earliest:
		at.Where = replica.Earliest
	case wirecapnp.ListOffsetsRequest_Which_latest:
		at.Where = replica.Latest
	case wirecapnp.ListOffsetsRequest_Which_time:
		at.Where, at.Time = replica.AtTime, in.Time()
	default:
		return fault.Errorf(fault.UnsupportedVersion, "list offsets: place %d is not known", in.Which())
	}
	got, err := r.ListOffset(ctx, at)
	if err != nil {
		return fault.Wrap("list offsets of "+id.String(), err)
	}
	return answer(c, wirecapnp.Response.NewListOffsets, func(out wirecapnp.ListOffsetsReply) {
		out.SetOffset(uint64(got.Offset))
		out.SetEpoch(uint64(got.Epoch))
		out.SetHighWatermark(uint64(got.HighWatermark))
		out.SetLogStart(uint64(got.LogStart))
		out.SetLocalStart(uint64(got.LocalStart))
	})
}

// partitionState tells where a replica stands.
func (s *Server) partitionState(ctx context.Context, c *call) error {
	in, err := c.req.Message.PartitionState()
	r, _, err := s.find(in, err)
	if err != nil {
		return err
	}
	state := r.State()
	standings, err := r.Standings(ctx)
	if err != nil {
		return err //nolint:wrapcheck // a fault of the replica.
	}
	c.reply(func(response wirecapnp.Response) error { return fillState(response, state, standings) }, nil)
	return nil
}

//nolint:wrapcheck // frame wraps it: the answer cannot be built.
func fillState(response wirecapnp.Response, state replica.State, standings []replica.Standing) error {
	out, err := response.NewPartitionState()
	if err != nil {
		return err
	}
	out.SetLeader(uint64(state.Leader))
	out.SetEpoch(uint64(state.Epoch))
	out.SetHighWatermark(uint64(state.HighWatermark))
	out.SetLogStart(uint64(state.LogStart))
	out.SetLocalStart(uint64(state.LocalStart))
	out.SetEnd(uint64(state.End))
	out.SetSealedEnd(uint64(state.SealedEnd))
	out.SetTierEnd(uint64(state.TierEnd))
	out.SetExportedEnd(uint64(state.ExportedEnd))
	out.SetSizeBytes(state.SizeBytes)
	out.SetDurability(state.Durability)
	out.SetActive(state.Active)
	out.SetDamaged(uint32(state.Damaged)) //nolint:gosec // a length.
	list, err := out.NewReplicas(int32(len(standings)))
	if err != nil {
		return err
	}
	for i, s := range standings {
		id, err := list.At(i).NewReplica()
		if err != nil {
			return err
		}
		hi, lo := s.Member.Replica.Halves()
		id.SetHi(hi)
		id.SetLo(lo)
		list.At(i).SetBroker(uint64(s.Member.Broker))
		list.At(i).SetLearner(s.Learner)
		list.At(i).SetMatch(uint64(s.Match))
		list.At(i).SetHighWatermark(uint64(s.HighWatermark))
		list.At(i).SetLastHeardMillis(uint64(s.LastHeard.Milliseconds()))
	}
	return nil
}

// initProducer gives an id that no producer had before.
func (s *Server) initProducer(ctx context.Context, c *call) error {
	id, err := s.cfg.ProducerIDs.Next(ctx)
	if err != nil {
		return fault.Wrap("init producer", err)
	}
	return answer(c, wirecapnp.Response.NewInitProducer, func(out wirecapnp.InitProducerReply) {
		out.SetProducerId(id)
	})
}

// seal closes the open segment and waits for its Seal.
func (s *Server) seal(ctx context.Context, c *call) error {
	in, err := c.req.Message.Seal()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	got, err := r.Seal(ctx)
	if err != nil {
		return fault.Wrap("seal "+id.String(), err)
	}
	return answer(c, wirecapnp.Response.NewSeal, func(out wirecapnp.SealReply) {
		out.SetSealedEnd(uint64(got.SealedEnd))
		out.SetHighWatermark(uint64(got.HighWatermark))
		out.SetSealed(got.Sealed)
	})
}

// trim moves the log start, or only frees local data.
func (s *Server) trim(ctx context.Context, c *call) error {
	in, err := c.req.Message.Trim()
	r, id, err := s.find(in, err)
	if err != nil {
		return err
	}
	got, err := r.Trim(ctx, partition.Offset(in.BeforeOffset()), in.LocalOnly())
	if err != nil {
		return fault.Wrap("trim "+id.String(), err)
	}
	return answer(c, wirecapnp.Response.NewTrim, func(out wirecapnp.TrimReply) {
		out.SetLogStart(uint64(got.LogStart))
		out.SetLocalStart(uint64(got.LocalStart))
	})
}
