package data

import (
	"context"
	"errors"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// publish verifies a batch and hands it to its replica, on the connection's goroutine: so the order of the wire is that of the log. The
// answer comes from whoever completes it.
func (s *Server) publish(ctx context.Context, c *call) {
	in, err := c.req.Message.Publish()
	r, id, err := s.find(in, err)
	if err == nil {
		err = fault.Wrap("publish to "+id.String(), s.verify(id.Topic, c.req.Body))
	}
	if err != nil {
		c.fail(err)
		return
	}
	epoch, ackNone := partition.Epoch(in.Epoch()), in.AckNone()
	buffer := c.req.TakeBody()
	r.Publish(replica.Publish{
		Msg:      buffer.Bytes(),
		Release:  buffer.Release,
		Epoch:    epoch,
		Canceled: ctx.Done(),
		AckNone:  ackNone,
		Done: func(p replica.Published, err error) {
			if err != nil {
				c.fail(err)
				return
			}
			c.reply(func(response wirecapnp.Response) error { return fillPublished(response, p) }, nil)
		},
	})
}

// verify checks all of a batch that does not depend on the log (doc.go 1).
func (s *Server) verify(id partition.UUID, body []byte) error {
	if len(body) == 0 {
		return fault.Errorf(fault.Invalid, "the request has no body, which must be one batch")
	}
	header, err := batch.ParseHeader(body)
	if err == nil && header.Size != len(body) {
		return fault.Errorf(fault.Invalid, "body of %d bytes is not exactly one batch: its first is of %d", len(body), header.Size)
	}
	if err == nil {
		err = header.CheckPublish()
	}
	if err != nil {
		return batchFault(err)
	}
	topic, ok := s.cfg.Replicas.Topic(id)
	if !ok {
		return fault.Errorf(fault.NotFound, "the topic does not exist, or is deleted")
	}
	if err := checkTopic(header, topic); err != nil {
		return err
	}
	if err := batch.CheckBody(body); err != nil {
		return batchFault(err)
	}
	return nil
}

// checkTopic holds a batch against its topic's settings.
func checkTopic(header batch.Header, topic topology.Topic) error {
	limit := int(topic.BatchBytesMax)
	if limit == 0 {
		limit = batch.DefaultMaxBytes
	}
	switch {
	case header.Size > limit:
		return fault.Errorf(fault.TooLarge, "batch of %d bytes is larger than the %d that topic %s takes", header.Size, limit, topic.FullName())
	case header.MapVersion == 0 || header.MapVersion == topic.MapVersion:
		return nil
	case header.MapVersion < topic.MapVersion:
		return fault.Errorf(fault.StaleRouting, "batch was routed by version %d of the hash ranges, topic %s is at %d",
			header.MapVersion, topic.FullName(), topic.MapVersion)
	default:
		return fault.Errorf(fault.Unavailable, "batch was routed by version %d of the hash ranges, this broker knows %d so far",
			header.MapVersion, topic.MapVersion)
	}
}

// batchFault gives what is wrong with a batch its kind.
func batchFault(err error) error {
	if errors.Is(err, batch.ErrCRC) {
		return fault.Errorf(fault.Corrupt, "batch was damaged on its way: %w", err)
	}
	return fault.Errorf(fault.Invalid, "batch is refused: %w", err)
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
