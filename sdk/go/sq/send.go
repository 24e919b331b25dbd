package sq

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/batch"
)

// chunkBytes is how much of a SendBatch is buffered at once before it waits for room again.
const chunkBytes = 1 << 20

// Send publishes one record and waits for its answer; it tries again until ctx ends. ErrOutcomeUnknown: the record may or may not be stored;
// any other error: it is not.
func (p *Producer) Send(ctx context.Context, r Record, options ...SendOption) (Ack, error) {
	results, err := p.SendBatch(ctx, []Record{r}, options...)
	if err != nil {
		return Ack{Offset: -1}, err
	}
	return results[0].Ack, nil
}

// SendBatch publishes records and waits for their answers. It is not atomic: each record has a Result of its own, in the order of records;
// err is that of the first one that failed. Records of one partition are stored in the order given, though others may come between.
func (p *Producer) SendBatch(ctx context.Context, records []Record, options ...SendOption) ([]Result, error) {
	if len(records) == 0 {
		return nil, nil
	}
	op := newOperation(len(records), trace.SpanContextFromContext(ctx))
	p.enqueue(ctx, records, namedPartition(options), op)
	select {
	case <-op.done:
	case <-ctx.Done():
		if op.giveUp("publish to "+p.topic, context.Cause(ctx)) {
			p.wakeAll()
		}
	}
	return op.leave()
}

// namedPartition gives the partition that options name, -1 = none.
func namedPartition(options []SendOption) int {
	if len(options) == 0 {
		return -1 // and nothing is allocated
	}
	cfg := sendConfig{partition: -1}
	for _, option := range options {
		option(&cfg)
	}
	return cfg.partition
}

// Go hands a record over and returns; fn, which may be nil, gets its answer later. It waits only while the buffer is full. Answers of one
// partition come in order, on a goroutine that sends: fn must not wait for anything, and must not call Send, Flush or Close.
func (p *Producer) Go(r Record, fn func(Ack, error), options ...SendOption) {
	if err := p.goOne(&r, fn, namedPartition(options)); err != nil && fn != nil {
		fn(Ack{Offset: -1}, err)
	}
}

func (p *Producer) goOne(r *Record, fn func(Ack, error), named int) error {
	if err := p.ready(); err != nil {
		return err
	}
	plan := p.plan.Load()
	if plan == nil {
		var err error
		if plan, err = p.firstPlan(); err != nil {
			return err
		}
	}
	partition, mapVersion := p.choose(plan, r.Key, named)
	if err := plan.topic.check(partition); err != nil {
		return errorOf("publish to "+p.topic, err)
	}
	cost := costOf(r)
	if err := p.buffered.take(context.Background(), p.done, cost); err != nil {
		return p.taking(err)
	}
	now := time.Now()
	rec := recordOf(r, now)
	e := entry{call: fn, count: 1, partition: int32(named)}
	if p.cfg.deliveryTimeout > 0 {
		e.deadline = now.Add(p.cfg.deliveryTimeout).UnixNano()
	}
	if err := plan.lanes[partition].add(&rec, e, cost, mapVersion); err != nil {
		p.buffered.give(cost)
		return err
	}
	return nil
}

// firstPlan asks for metadata on behalf of records that have no context.
func (p *Producer) firstPlan() (*plan, error) {
	ctx, cancel := p.client.whileOpen(context.Background())
	defer cancel()
	if p.cfg.deliveryTimeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.cfg.deliveryTimeout)
		defer cancel()
	}
	return p.current(ctx)
}

// taking explains why there was no room.
func (p *Producer) taking(err error) error {
	if errors.Is(err, ErrClosed) {
		return p.closedError()
	}
	e := errorOf("publish to "+p.topic, err)
	if e.Kind == KindDeadlineExceeded || e.Kind == KindCanceled {
		e.Err = fmt.Errorf("wait for room in the buffer: %w", e.Err)
	}
	return e
}

// enqueue puts the records of an operation into lanes. What cannot be enqueued has its answer.
func (p *Producer) enqueue(ctx context.Context, records []Record, named int, op *operation) {
	now, err := p.planFor(ctx, named)
	if err != nil {
		op.fail(0, len(records), err)
		return
	}
	e := entry{op: op, partition: int32(named)}
	if deadline, ok := ctx.Deadline(); ok {
		e.deadline = deadline.UnixNano()
	}
	for from := 0; from < len(records); {
		to, cost := p.chunk(records, from)
		if err := p.buffered.take(ctx, p.done, cost); err != nil {
			op.fail(from, len(records)-from, p.taking(err))
			return
		}
		p.spread(now, records, from, to, e)
		from = to
		if next := p.plan.Load(); next != nil {
			now = next
		}
	}
}

// planFor gives the plan for records, checking what can be checked before.
func (p *Producer) planFor(ctx context.Context, named int) (*plan, error) {
	if err := p.ready(); err != nil {
		return nil, err
	}
	now, err := p.current(ctx)
	if err != nil {
		return nil, err
	}
	if named >= 0 {
		if err := now.topic.check(named); err != nil {
			return nil, errorOf("publish to "+p.topic, err)
		}
	}
	return now, nil
}

// chunk gives where the part of records that begins at from and is buffered at once ends, and what it costs.
func (p *Producer) chunk(records []Record, from int) (to, cost int) {
	limit := min(chunkBytes, p.cfg.maxBuffered/2)
	for to = from; to < len(records); to++ {
		one := costOf(&records[to])
		if to > from && cost+one > limit {
			break
		}
		cost += one
	}
	return to, cost
}

// spread puts records[from:to], whose room is taken, into their lanes, and hurries these when all are in.
func (p *Producer) spread(plan *plan, records []Record, from, to int, e entry) {
	var last *lane
	var others map[*lane]struct{}
	now := time.Now()
	for i := from; i < to; i++ {
		r := &records[i]
		partition, mapVersion := p.choose(plan, r.Key, int(e.partition))
		l := plan.lanes[partition]
		if last != nil && l != last {
			if others == nil {
				others = make(map[*lane]struct{})
			}
			others[last] = struct{}{}
		}
		last = l
		rec, cost := recordOf(r, now), costOf(r)
		e.first, e.count = int32(i), 1
		if err := l.add(&rec, e, cost, mapVersion); err != nil {
			p.buffered.give(cost)
			e.op.fail(i, 1, err)
		}
	}
	last.hurry()
	for l := range others {
		l.hurry()
	}
}

// wakeAll lets the lanes look for records that nobody wants any more.
func (p *Producer) wakeAll() {
	if plan := p.plan.Load(); plan != nil {
		for _, l := range plan.lanes {
			l.signal()
		}
	}
}

// costOf gives what a record takes of the budget.
func costOf(r *Record) int {
	cost := len(r.Key) + len(r.Value) + recordCost
	for i := range r.Headers {
		cost += len(r.Headers[i].Key) + len(r.Headers[i].Value) + recordCost
	}
	return cost
}

func recordOf(r *Record, now time.Time) batch.Record {
	at := r.Timestamp
	if at.IsZero() {
		at = now
	}
	return batch.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: batch.Micros(at)}
}
