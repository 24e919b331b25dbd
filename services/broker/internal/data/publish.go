package data

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// publish hands a batch to its replica on the connection's goroutine: so the order of the wire is that of the log. The answer comes from
// whoever completes it.
func (s *Server) publish(ctx context.Context, c *call) {
	in, err := c.req.Message.Publish()
	r, _, err := s.find(in, err)
	if err != nil {
		c.fail(err)
		return
	}
	epoch, ackNone := partition.Epoch(in.Epoch()), in.AckNone()
	buffer := c.req.TakeBody()
	if buffer == nil {
		c.fail(fault.Errorf(fault.Invalid, "publish: the request has no body, which must be one batch"))
		return
	}
	size := buffer.Len()
	r.Publish(ctx, replica.Publish{
		Msg:     buffer.Bytes(),
		Release: buffer.Release,
		Epoch:   epoch,
		AckNone: ackNone,
		Done: func(p replica.Published, err error) {
			if err != nil {
				c.fail(err)
				return
			}
			s.metrics.publishedBytes.Add(float64(size))
			c.reply(func(response wirecapnp.Response) error { return fillPublished(response, p) }, nil)
		},
	})
}

func fillPublished(response wirecapnp.Response, p replica.Published) error {
	out, err := response.NewPublish()
	if err != nil {
		return err //nolint:wrapcheck // frame wraps it.
	}
	out.SetBaseOffset(uint64(p.BaseOffset))
	out.SetLastOffset(uint64(p.LastOffset))
	out.SetOffsetKnown(p.OffsetKnown)
	out.SetDuplicate(p.Duplicate)
	out.SetEpoch(uint64(p.Epoch))
	out.SetHighWatermark(uint64(p.HighWatermark))
	out.SetLogStart(uint64(p.LogStart))
	out.SetAppendTime(p.AppendTime)
	out.SetDurability(p.Durability)
	return nil
}
