package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// Enqueue hands n records over, which at writes into a record, one after the other. What cannot be enqueued has its answer at once. It waits for metadata the
// first time, and for room, until ctx ends. named is the partition that the caller names, -1 = none.
func (p *Outbox) Enqueue(ctx context.Context, n int, at func(i int, into *batch.Record), named int) *Operation {
	op := newOperation(n, trace.SpanContextFromContext(ctx))
	now, err := p.planFor(ctx, named)
	if err != nil {
		op.fail(0, n, err)
		return op
	}
	e := entry{op: op, partition: int32(named)}
	if deadline, ok := ctx.Deadline(); ok {
		e.deadline = deadline.UnixNano()
	}
	for from := 0; from < n; {
		to, cost := p.chunk(n, at, from)
		if err := p.cfg.Account.Take(ctx, p.done, cost); err != nil {
			op.fail(from, n-from, p.noRoom(err))
			return op
		}
		p.spread(now, at, from, to, e)
		from = to
		if next := p.plan.Load(); next != nil {
			now = next
		}
	}
	return op
}

// chunk gives where the part of the records that begins at from and is buffered at once ends, and what it costs.
func (p *Outbox) chunk(n int, at func(i int, into *batch.Record), from int) (to, cost int) {
	limit := min(chunkBytes, p.cfg.Limit/2)
	var rec batch.Record
	for to = from; to < n; to++ {
		at(to, &rec)
		one := costOf(&rec)
		if to > from && cost+one > limit {
			break
		}
		cost += one
	}
	return to, cost
}

// spread puts the records [from, to), whose room is taken, into their lanes, and hurries these when all are in.
func (p *Outbox) spread(plan *plan, at func(i int, into *batch.Record), from, to int, e entry) {
	var last *lane
	var others map[*lane]struct{}
	var rec batch.Record
	for i := from; i < to; {
		at(i, &rec)
		partition, mapVersion := p.choose(plan, rec.Key, int(e.partition))
		l := plan.lanes[partition]
		if last != nil && l != last {
			if others == nil {
				others = make(map[*lane]struct{})
			}
			others[last] = struct{}{}
		}
		last = l
		n, err := l.addRun(i, to, at, &rec, e, mapVersion)
		i += n
		if err != nil {
			p.cfg.Account.Give(costOf(&rec))
			e.op.fail(i, 1, err)
			i++
		}
	}
	last.hurry()
	for l := range others {
		l.hurry()
	}
}

// Post hands one record over whose answer call gets, until deadline (zero = for ever). It waits for room, and for metadata the first time,
// until ctx ends. On an error the record was not taken and call gets nothing.
func (p *Outbox) Post(ctx context.Context, rec *batch.Record, call any, deadline time.Time, named int) error {
	plan := p.plan.Load()
	if plan == nil || named >= 0 || p.closed.Load() {
		var err error
		if plan, err = p.planFor(ctx, named); err != nil {
			return err
		}
	}
	partition, mapVersion := p.choose(plan, rec.Key, named)
	cost := costOf(rec)
	if err := p.cfg.Account.Take(ctx, p.done, cost); err != nil {
		return p.noRoom(err)
	}
	e := entry{call: call, count: 1, partition: int32(named)}
	if !deadline.IsZero() {
		e.deadline = deadline.UnixNano()
	}
	if err := plan.lanes[partition].add(rec, e, cost, mapVersion); err != nil {
		p.cfg.Account.Give(cost)
		return err
	}
	return nil
}

// noRoom explains why there was no room.
func (p *Outbox) noRoom(err error) error {
	if errors.Is(err, fault.ErrClosed) {
		return p.closedError()
	}
	e := fault.Of("publish to "+p.cfg.Topic, err)
	if e.Kind == wirecapnp.ErrorKind_deadlineExceeded || e.Kind == wirecapnp.ErrorKind_canceled {
		e.Err = fmt.Errorf("wait for room in the buffer: %w", e.Err)
	}
	return e
}

// costOf gives what a record takes of the account.
func costOf(r *batch.Record) int {
	cost := len(r.Key) + len(r.Value) + recordCost
	for i := range r.Headers {
		cost += len(r.Headers[i].Key) + len(r.Headers[i].Value) + recordCost
	}
	return cost
}
