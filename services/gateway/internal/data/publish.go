package data

import (
	"context"
	"errors"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// publish hands a batch on. It does not wait: the order of the wire is the order of Submit.
func (c *client) publish(ctx context.Context, req *frame.Request) {
	ctx, k := c.begin(ctx, req, callPublish)
	p, err := c.readPublish(req)
	if err != nil {
		k.fail(err)
		return
	}
	body := req.TakeBody()
	size := body.Len()
	p.Body = body.Bytes()
	p.Free = body.Release
	p.Done = func(reply *frame.Reply, err error) {
		if err != nil {
			k.fail(err)
			return
		}
		defer reply.Release()
		answer, err := reply.Response.Publish()
		if err != nil {
			k.fail(&fault.Error{Kind: fault.OutcomeUnknown, Op: "read the broker's answer", Err: err})
			return
		}
		k.server.metrics.publishBytes.Add(float64(size))
		k.end(resultOK)
		_ = req.Reply(func(out wirecapnp.Response) error { return out.SetPublish(answer) }, nil) // where it fails the connection has ended
	}
	c.caller.Submit(ctx, p)
}

// readPublish checks all that can be told from the header.
func (c *client) readPublish(req *frame.Request) (upstream.Publish, error) {
	in, err := req.Message.Publish()
	id, err := partitionOf(in, err)
	if err != nil {
		return upstream.Publish{}, err
	}
	h, err := batch.ParseHeader(req.Body)
	if err != nil {
		return upstream.Publish{}, badBatch(err)
	}
	if err := h.CheckPublish(); err != nil {
		return upstream.Publish{}, badBatch(err)
	}
	if h.Size != len(req.Body) {
		return upstream.Publish{}, fault.Errorf(fault.Invalid, "publish: the batch has %d bytes, the body %d; a body is exactly one batch", h.Size, len(req.Body))
	}
	// A topic that is not known yet has its chance in upstream, which waits a moment for it.
	if topic, err := c.server.cfg.Router.Table().TopicByID(id.Topic); err == nil {
		if in.Partition() >= topic.Partitions {
			return upstream.Publish{}, fault.Errorf(fault.Invalid, "publish: topic %s has partitions 0 to %d, not %d",
				topic.FullName(), topic.Partitions-1, in.Partition())
		}
		if h.Size > int(topic.BatchBytesMax) {
			return upstream.Publish{}, fault.Errorf(fault.TooLarge, "publish: the batch has %d bytes, topic %s takes %d", h.Size, topic.FullName(), topic.BatchBytesMax)
		}
	}
	return upstream.Publish{
		Partition: id, Epoch: partition.Epoch(in.Epoch()), AckNone: in.AckNone(), Repeatable: h.ProducerID != 0 || !h.DedupeKey.IsZero(),
	}, nil
}

// badBatch: a wrong checksum is damage on the way, everything else is the producer's doing.
func badBatch(err error) error {
	if errors.Is(err, batch.ErrCRC) {
		return fault.Errorf(fault.Corrupt, "publish: %w", err)
	}
	return fault.Errorf(fault.Invalid, "publish: %w", err)
}
