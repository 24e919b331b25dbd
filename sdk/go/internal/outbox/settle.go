package outbox

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/codes"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
	"github.com/seedqueue/sq/sdk/go/internal/session"
)

// refreshed asks for metadata, not for long: the lane has other work.
func (l *lane) refreshed(ctx context.Context) (*plan, error) {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	topic, err := l.box.cfg.LookUp(ctx, false)
	if err != nil {
		return nil, err
	}
	return l.box.adopt(topic), nil
}

// gone finds out whether the topic is: a gateway may not know a new one yet.
func (l *lane) gone(ctx context.Context, cause *fault.Error) session.Outcome {
	now, err := l.refreshed(ctx)
	if fault.Of("", err).Kind == wirecapnp.ErrorKind_notFound {
		l.box.plan.CompareAndSwap(l.box.plan.Load(), nil)
		return session.Failed
	}
	if err == nil && !now.topic.SameAs(l.topic) {
		cause.Err = fmt.Errorf("topic was deleted and made anew: %w", cause.Err)
		return session.Failed
	}
	return session.Refused
}

// reroute sends the records of a refused batch to where their keys belong now.
func (l *lane) reroute(ctx context.Context, f *session.Flight[*parcel]) session.Outcome {
	now, err := l.refreshed(ctx)
	if err != nil || now.topic.MapVersion == f.Value.mapVersion || f.Value.mapVersion == 0 {
		return session.Refused // the gateway does not know the new map yet, or it is not ours that is old
	}
	f.Value.moved = true // unless it may be stored: then it is lost instead
	return session.Failed
}

// move puts the records of a parcel into the lanes where they belong now.
func (l *lane) move(c *parcel) {
	var reader batch.Reader
	if err := reader.Reset(*c.message); err != nil {
		l.answer(c, &fault.Error{Kind: wirecapnp.ErrorKind_internal, Op: l.op, Err: err})
		return
	}
	p := l.box
	p.moved.Add(1)
	plan := p.plan.Load()
	var rec batch.Record
	left := c.cost
	for _, e := range c.entries {
		for j := range e.count {
			reader.Record(int(e.at+j), &rec)
			one := e
			one.first, one.count = e.first+j, 1
			err := error(&fault.Error{Kind: wirecapnp.ErrorKind_notFound, Op: l.op})
			cost := costOf(&rec)
			left -= cost
			if plan != nil {
				partition, mapVersion := p.choose(plan, rec.Key, int(e.partition))
				if err = plan.topic.Check(partition); err == nil {
					err = plan.lanes[partition].add(&rec, one, cost, mapVersion)
					plan.lanes[partition].hurry()
				}
			}
			if err != nil {
				p.cfg.Account.Give(cost)
				(&parcel{entries: []entry{one}}).failed(p.cfg.Deliver, fault.Of(l.op, err))
			}
		}
	}
	p.cfg.Account.Give(left) // of records that were taken out before
	l.recycle(c)
	l.complete(c.count)
}

// finish ends a batch that has left the window.
func (l *lane) finish(f *session.Flight[*parcel]) {
	c := f.Value
	switch {
	case f.Stored():
		l.answer(c, nil)
	case f.Lost():
		cause := error(c.last)
		if c.last == nil {
			cause = fault.ErrClosed
		}
		l.answer(c, &fault.Error{Kind: wirecapnp.ErrorKind_outcomeUnknown, Op: l.op, Err: cause})
	case c.moved:
		if c.span != nil {
			c.span.End()
		}
		l.move(c)
	default:
		l.answer(c, c.last)
	}
}

// answer tells all who wait, and gives back what the parcel held.
func (l *lane) answer(c *parcel, err *fault.Error) {
	if c.span != nil {
		if err != nil {
			c.span.SetStatus(codes.Error, err.Error())
		}
		c.span.End()
	}
	if err != nil {
		c.failed(l.box.cfg.Deliver, err)
	} else {
		c.stored(l.box.cfg.Deliver)
	}
	l.box.cfg.Account.Give(c.cost)
	l.recycle(c)
	l.complete(c.count)
}

// recycle gives the parcel's buffers back, unless a connection may still read them.
func (l *lane) recycle(c *parcel) {
	if c.builder != nil {
		l.box.builders.Put(c.builder)
		c.builder = nil
	}
	if c.message != nil && !c.held {
		l.box.messages.Put(c.message)
	}
	c.message = nil
	clear(c.entries) // callbacks and operations are not to be kept alive
	entries := c.entries[:0]
	l.box.parcels.Put(&entries)
	c.entries = nil
}
