package data

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// fetch hands batches through, from the broker or a tierer.
func (c *client) fetch(ctx context.Context, k *call) {
	in, err := k.req.Message.Fetch()
	id, err := partitionOf(in, err)
	if err != nil {
		k.fail(err)
		return
	}
	limits := c.server.cfg.Limits
	if in.WaitMillis() > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.server.life, cancel)() //nolint:contextcheck // Drain ends polls of all clients.
	}
	reply, _, err := c.caller.Fetch(ctx, upstream.Fetch{
		Partition: id,
		Offset:    partition.Offset(in.Offset()),
		Epoch:     partition.Epoch(in.Epoch()),
		MaxBytes:  min(in.MaxBytes(), limits.FetchBytes),
		Wait:      min(time.Duration(in.WaitMillis())*time.Millisecond, limits.MaxWait),
	})
	if fault.Is(err, fault.Canceled) && c.server.life.Err() != nil {
		err = fault.Errorf(fault.Unavailable, "fetch: the gateway is stopping")
	}
	if err != nil {
		k.fail(err)
		return
	}
	defer reply.Release()
	answer, err := reply.Response.Fetch()
	if err != nil {
		k.fail(fault.Errorf(fault.Internal, "read the broker's answer: %w", err))
		return
	}
	var body frame.Body
	if taken := reply.TakeBody(); taken != nil {
		body = taken
		c.server.metrics.fetchBytes.Add(float64(taken.Len()))
	}
	k.end(resultOK)
	_ = k.req.Reply(func(out wirecapnp.Response) error { return out.SetFetch(answer) }, body) // where it fails the connection has ended
}

func (c *client) listOffsets(ctx context.Context, k *call) {
	in, err := k.req.Message.ListOffsets()
	id, err := partitionOf(in, err)
	if err != nil {
		k.fail(err)
		return
	}
	var at upstream.At
	switch in.Which() {
	case wirecapnp.ListOffsetsRequest_Which_earliest:
		at.Earliest = true
	case wirecapnp.ListOffsetsRequest_Which_latest:
		at.Latest = true
	case wirecapnp.ListOffsetsRequest_Which_time:
		at.Time = in.Time()
	default:
		k.fail(fault.Errorf(fault.UnsupportedVersion, "list offsets: this release does not know position %d", in.Which()))
		return
	}
	found, err := c.caller.ListOffsets(ctx, id, partition.Epoch(in.Epoch()), at)
	if err != nil {
		k.fail(err)
		return
	}
	k.end(resultOK)
	_ = k.req.Reply(func(res wirecapnp.Response) error { // where it fails the connection has ended
		out, err := res.NewListOffsets()
		if err != nil {
			return err //nolint:wrapcheck // frame says what it was building.
		}
		out.SetOffset(uint64(found.Offset))
		out.SetEpoch(uint64(found.Epoch))
		out.SetHighWatermark(uint64(found.HighWatermark))
		out.SetLogStart(uint64(found.LogStart))
		out.SetLocalStart(uint64(found.LocalStart))
		return nil
	}, nil)
}

func (c *client) initProducer(ctx context.Context, k *call) {
	id, err := c.caller.InitProducer(ctx)
	if err != nil {
		k.fail(err)
		return
	}
	k.end(resultOK)
	_ = k.req.Reply(func(res wirecapnp.Response) error { // where it fails the connection has ended
		out, err := res.NewInitProducer()
		if err != nil {
			return err //nolint:wrapcheck // frame says what it was building.
		}
		out.SetProducerId(id)
		return nil
	}, nil)
}
