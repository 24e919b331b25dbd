package sq

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/codes"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/internal/session"
)

// refreshed asks for metadata, not for long: the lane has other work.
func (l *lane) refreshed(ctx context.Context) (*plan, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	return l.producer.refresh(ctx)
}

// gone finds out whether the topic is: a gateway may not know a new one yet.
func (l *lane) gone(ctx context.Context, cause *Error) session.Outcome {
	now, err := l.refreshed(ctx)
	if KindOf(err) == KindNotFound {
		l.producer.plan.CompareAndSwap(l.producer.plan.Load(), nil)
		return session.Failed
	}
	if err == nil && (now.topic.idHi != l.topic.idHi || now.topic.idLo != l.topic.idLo) {
		cause.Err = fmt.Errorf("topic was deleted and made anew: %w", cause.Err)
		return session.Failed
	}
	return session.Refused
}

// reroute sends the records of a refused batch to where their keys belong now.
func (l *lane) reroute(ctx context.Context, f *session.Flight[*parcel]) session.Outcome {
	now, err := l.refreshed(ctx)
	if err != nil || now.topic.mapVersion == f.Value.mapVersion || f.Value.mapVersion == 0 {
		return session.Refused // the gateway does not know the new map yet, or it is not ours that is old
	}
	f.Value.moved = !f.Perhaps()
	return session.Failed
}

// move puts the records of a parcel into the lanes where they belong now.
func (l *lane) move(c *parcel) {
	var reader batch.Reader
	if err := reader.Reset(*c.message); err != nil {
		l.answer(c, &Error{Kind: KindInternal, Op: l.op, Err: err})
		return
	}
	p := l.producer
	p.moved.Add(1)
	plan := p.plan.Load()
	var rec batch.Record
	left := c.cost
	for _, e := range c.entries {
		for j := range e.count {
			reader.Record(int(e.at+j), &rec)
			one := e
			one.first, one.count = e.first+j, 1
			err := error(&Error{Kind: KindNotFound, Op: l.op})
			cost := costOf(&Record{Key: rec.Key, Value: rec.Value, Headers: rec.Headers})
			left -= cost
			if plan != nil {
				partition, mapVersion := p.choose(plan, rec.Key, int(e.partition))
				if err = plan.topic.check(partition); err == nil {
					err = plan.lanes[partition].add(&rec, one, cost, mapVersion)
					plan.lanes[partition].hurry()
				}
			}
			if err != nil {
				p.buffered.give(cost)
				(&parcel{entries: []entry{one}}).failed(errorOf(l.op, err))
			}
		}
	}
	p.buffered.give(left) // of records that were taken out before
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
			cause = ErrClosed
		}
		l.answer(c, &Error{Kind: KindOutcomeUnknown, Op: l.op, Err: cause})
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
func (l *lane) answer(c *parcel, err *Error) {
	if c.span != nil {
		if err != nil {
			c.span.SetStatus(codes.Error, err.Error())
		}
		c.span.End()
	}
	if err != nil {
		c.failed(err)
	} else {
		c.stored()
	}
	l.producer.buffered.give(c.cost)
	l.recycle(c)
	l.complete(c.count)
}

// recycle gives the parcel's buffers back, unless a connection may still read them.
func (l *lane) recycle(c *parcel) {
	if c.builder != nil {
		l.producer.builders.Put(c.builder)
		c.builder = nil
	}
	if c.message != nil && !c.held {
		l.producer.messages.Put(c.message)
	}
	c.message = nil
	clear(c.entries) // callbacks and operations are not to be kept alive
	entries := c.entries[:0]
	l.producer.parcels.Put(&entries)
	c.entries = nil
}
