package sq

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
)

// chunk is one answer on its way from a fetcher to the loop, or an error.
type chunk struct {
	partition               int
	from, next              int64 // [from, next) was read
	end                     int64 // where reading ends, -1 = never
	until                   time.Time
	highWatermark, logStart int64
	durability              Durability
	reply                   *frame.Reply // nil = none
	taken                   int          // bytes of the account
	err                     error
	last                    bool // with an error: of the loop; else: of the partition
}

// fetcher reads one partition ahead of the loop.
type fetcher struct {
	stream    *stream
	partition int
	op        string
	offset    int64
	end       int64 // first offset not to read, -1 = none
	until     time.Time
	sliding   bool // nothing was read yet and the start is wherever the log starts
	started   bool // the position has been right once
	epoch     uint64
	behind    bool // there is more to read now
}

// run fetches until the end, an error for good, or ctx.
func (f *fetcher) run(ctx context.Context) {
	f.behind = true
	for failures := 0; ctx.Err() == nil; {
		if f.end >= 0 && f.offset >= f.end {
			f.send(ctx, chunk{last: true})
			return
		}
		k, err := f.fetch(ctx)
		if err == nil {
			failures = 0
			if !f.send(ctx, k) || k.last {
				return
			}
			continue
		}
		if ctx.Err() != nil {
			return
		}
		e := errorOf(f.op, err)
		if k, final := f.judge(ctx, e); final || k.err != nil {
			if !f.send(ctx, k) || final {
				return
			}
			continue
		}
		f.stream.client.log.Log(ctx, gateway.RetryLevel(failures+1), "fetch is tried again", "topic", f.stream.name, "partition", f.partition, "offset", f.offset, "err", e)
		if e.Kind != KindOffsetTrimmed && !f.stream.client.pause(ctx, failures, e.RetryAfter) {
			return
		}
		failures++
	}
}

// send hands a chunk to the loop; false if ctx ended first.
func (f *fetcher) send(ctx context.Context, k chunk) bool {
	k.partition, k.end, k.until = f.partition, f.end, f.until
	select {
	case f.stream.chunks <- k:
		return true
	case <-ctx.Done():
		f.stream.release(k)
		return false
	}
}

// judge says what an error means: a chunk with an error is for the loop, and final ends the loop; neither = try again.
func (f *fetcher) judge(ctx context.Context, e *Error) (k chunk, final bool) {
	switch {
	case e.Kind == KindOffsetTrimmed:
		start := max(e.Offset, f.offset+1)
		if !f.sliding {
			k.err = &TrimmedError{Topic: f.stream.name, Partition: f.partition, Offset: f.offset, Start: start}
		}
		f.offset = start
		return k, false
	case e.Kind == KindCorrupt && e.Offset > f.offset:
		k.err = &CorruptError{Topic: f.stream.name, Partition: f.partition, Offset: f.offset, Next: e.Offset, Err: e}
		f.offset = e.Offset
		return k, false
	case e.Kind == KindOffsetOutOfRange && f.started:
		return k, false // a new leader may not know yet how far the log was committed
	case e.Kind == KindNotFound:
		now, err := f.stream.client.metadata(ctx, f.stream.name)
		if err == nil && now.SameAs(f.stream.topic) {
			return k, false // a gateway or broker that does not know it yet
		}
		if err == nil {
			e.Err = fmt.Errorf("topic was deleted and made anew: %w", e.Err)
		}
		return chunk{err: e, last: true}, true
	case e.Kind.Retryable(), e.Kind == KindOutcomeUnknown, e.Kind == KindInternal, e.Kind == KindCanceled:
		return k, false
	default:
		return chunk{err: e, last: true}, true
	}
}

// fetch makes one call. Behind the end of the log it takes room first; at the end it waits there for a record, and what comes counts when
// it is there, so that partitions without records hold nothing.
func (f *fetcher) fetch(ctx context.Context) (k chunk, err error) {
	s := f.stream
	size := min(fetchBytes, max(s.cfg.readAhead, 1))
	if f.behind {
		k.taken = max(size, s.topic.BatchLimit())
		if err := s.held.Take(ctx, nil, k.taken); err != nil {
			return chunk{}, err
		}
	}
	defer func() {
		if err != nil {
			s.held.Give(k.taken)
		}
	}()
	conn, err := s.client.fetch.Get(ctx)
	if err != nil {
		return k, err
	}
	wait := f.wait()
	callCtx, cancel := context.WithTimeout(ctx, wait+requestTimeout)
	defer cancel()
	callCtx, span := s.client.tracer.Start(callCtx, "receive "+s.name, trace.WithSpanKind(trace.SpanKindConsumer))
	defer span.End()
	request := gateway.Fetch{
		Topic: s.topic, Partition: f.partition, Offset: f.offset, Epoch: f.epoch, MaxBytes: size, WaitMillis: wait.Milliseconds(),
	}
	got, err := request.Do(callCtx, conn)
	if err != nil {
		s.client.fetch.Judge(ctx, conn, err)
		span.SetStatus(codes.Error, err.Error())
		return k, err
	}
	if span.IsRecording() {
		span.SetAttributes(
			attribute.String("messaging.system", "sq"),
			attribute.String("messaging.operation.type", "receive"),
			attribute.String("messaging.destination.name", s.name),
			attribute.Int("messaging.destination.partition.id", f.partition),
			attribute.Int("messaging.message.body.size", len(got.Reply.Body)),
		)
	}
	actual := len(got.Reply.Body)
	s.held.Adjust(actual - k.taken)
	k.taken = actual
	f.accept(&k, got)
	return k, nil
}

// wait gives how long the server may wait for a record.
func (f *fetcher) wait() time.Duration {
	if f.behind {
		return 0
	}
	if f.until.IsZero() {
		return longPoll
	}
	return min(max(time.Until(f.until), 0), longPoll)
}

// accept takes an answer over.
func (f *fetcher) accept(k *chunk, got gateway.Fetched) {
	k.reply, k.from, k.next = got.Reply, f.offset, got.Next
	k.highWatermark, k.logStart, k.durability = got.HighWatermark, got.LogStart, Durability(got.Durability)
	f.epoch = max(f.epoch, got.Epoch)
	f.behind = k.next < k.highWatermark && k.next > f.offset // an answer without progress: better to wait for some
	f.started, f.sliding = true, false
	f.offset = k.next
	if !f.until.IsZero() && len(k.reply.Body) == 0 && !f.behind && !time.Now().Before(f.until) {
		k.last = true
	}
}
