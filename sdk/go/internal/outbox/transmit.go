package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
	"github.com/seedqueue/sq/sdk/go/internal/session"
)

// answer is what became of an attempt.
type answer struct {
	flight *session.Flight[*parcel]
	ack    Answer
	epoch  uint64
	held   bool // the connection may still read the message
	err    error
}

// run sends what the lane gets until ctx ends.
func (l *lane) run(ctx context.Context) {
	timer := l.box.cfg.Timer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		wait := l.advance(ctx)
		if wait.IsZero() {
			timer.Reset(time.Hour)
		} else {
			timer.Reset(wait.Sub(l.box.cfg.Now()))
		}
		select {
		case <-l.wake:
		case <-timer.C:
		case a := <-l.answers:
			l.arrived(ctx, a)
		case <-ctx.Done():
		}
	}
	for l.window.Out() > 0 { // ctx has ended, so each of them ends
		l.arrived(ctx, <-l.answers)
	}
	l.abort()
}

// advance does what can be done now, and says when to come again at the latest; zero = when something happens.
func (l *lane) advance(ctx context.Context) time.Time {
	for drained := false; !drained; {
		select {
		case a := <-l.answers:
			l.arrived(ctx, a)
		default:
			drained = true
		}
	}
	for {
		now := l.box.cfg.Now()
		wait := l.expire(now)
		if l.window.Broken() && l.window.Out() == 0 {
			l.restart()
		}
		for f := l.window.Pop(); f != nil; f = l.window.Pop() {
			l.finish(f)
		}
		if now.Before(l.retryAt) {
			return earlier(wait, l.retryAt)
		}
		f := l.window.Next()
		if f == nil {
			if !l.window.Room() || l.window.Out() < l.window.Len() {
				return wait // an answer comes first
			}
			next, ripe := l.take(now)
			if next == nil {
				return earlier(wait, ripe)
			}
			if !l.admit(ctx, next) {
				continue
			}
			f = l.window.Next()
		}
		l.transmit(ctx, f)
		if ctx.Err() != nil {
			return time.Time{}
		}
	}
}

// expire drops what nobody waits for any more. What was never sent just goes.
func (l *lane) expire(now time.Time) (next time.Time) {
	dead, next := l.unwanted(now)
	for _, c := range dead {
		l.answer(c, l.timedOut(c))
	}
	l.window.Waiting(func(f *session.Flight[*parcel]) {
		if f.Value.wanted(now) {
			next = earlier(next, f.Value.deadline())
			return
		}
		f.Value.last = l.timedOut(f.Value)
		l.window.Drop(f)
	})
	return next
}

func (l *lane) timedOut(c *parcel) *fault.Error {
	err := &fault.Error{Kind: wirecapnp.ErrorKind_deadlineExceeded, Op: l.op, Err: context.DeadlineExceeded}
	if c.last != nil {
		err.Err = fmt.Errorf("%w; last attempt: %w", context.DeadlineExceeded, c.last)
	}
	return err
}

// admit builds a parcel and puts it into the window; false if it has ended instead.
func (l *lane) admit(ctx context.Context, c *parcel) bool {
	if err := l.build(c); err != nil {
		l.answer(c, fault.Of(l.op, err))
		return false
	}
	l.begin(ctx, c)
	l.window.Add(c, uint32(c.count))
	return true
}

// build makes the message. The session's words are set when it is sent.
func (l *lane) build(c *parcel) error {
	message, _ := l.box.messages.Get().(*[]byte)
	var err error
	*message, err = c.builder.Build((*message)[:0], batch.BuildOptions{MapVersion: c.mapVersion, Codec: l.box.cfg.Codec})
	if err != nil {
		return err
	}
	l.box.builders.Put(c.builder)
	c.builder, c.message = nil, message
	return nil
}

// begin opens the span of a parcel, below that of its first caller.
func (l *lane) begin(ctx context.Context, c *parcel) {
	ctx = trace.ContextWithSpanContext(ctx, c.caller())
	_, c.span = l.box.cfg.Tracer.Start(ctx, "send "+l.box.cfg.Topic, trace.WithSpanKind(trace.SpanKindProducer))
	if c.span.IsRecording() {
		c.span.SetAttributes(
			attribute.String("messaging.system", "sq"),
			attribute.String("messaging.operation.type", "send"),
			attribute.String("messaging.destination.name", l.box.cfg.Topic),
			attribute.Int("messaging.destination.partition.id", l.partition),
			attribute.Int("messaging.batch.message_count", c.count),
			attribute.Int("messaging.message.body.size", len(*c.message)),
		)
	}
}

// restart begins a new session behind a broken one.
func (l *lane) restart() {
	l.pid, l.fresh = 0, true
	l.window.Restart(func(*session.Flight[*parcel]) {})
}

// transmit makes one attempt. Whatever goes wrong is settled as its answer.
func (l *lane) transmit(ctx context.Context, f *session.Flight[*parcel]) {
	c := f.Value
	if l.pid == 0 {
		id, err := l.box.producerID(ctx, l.fresh)
		if err != nil {
			l.notSent(ctx, f, err)
			return
		}
		l.pid, l.fresh = id, false
	}
	conn, err := l.box.cfg.Link.Get(ctx)
	if err != nil {
		l.notSent(ctx, f, err)
		return
	}
	if !f.Perhaps() {
		batch.Renumber(*c.message, l.pid, f.Sequence) // every attempt before, if any, has its answer: nobody reads the bytes
	}
	if !c.begin() {
		l.withdraw(f)
		return
	}
	deadline := l.box.cfg.Now().Add(requestTimeout)
	if at := c.deadline(); !at.IsZero() && at.Before(deadline) {
		deadline = at
	}
	startCtx, cancel := context.WithDeadline(trace.ContextWithSpan(ctx, c.span), deadline)
	defer cancel()
	pending, err := conn.Start(startCtx, l.request, *c.message)
	if err != nil {
		c.end(false)
		l.notSent(ctx, f, err)
		return
	}
	l.window.Sent(f)
	l.box.running.Go(func() { l.await(ctx, f, conn, pending, deadline.Add(answerGrace)) })
}

// withdraw takes the records of callers who have gone out of a batch that is certainly not stored.
func (l *lane) withdraw(f *session.Flight[*parcel]) {
	c := f.Value
	c.builder, _ = l.box.builders.Get().(*batch.Builder)
	c.builder.Limit = batch.MaxBytes
	before := c.count
	left, err := c.repack(l.build)
	if err != nil || left == 0 {
		c.last = &fault.Error{Kind: wirecapnp.ErrorKind_canceled, Op: l.op, Err: errors.Join(context.Canceled, err)}
		l.window.Drop(f)
		return
	}
	l.complete(before - left)
	l.window.Amend(f, uint32(c.count))
}

// request fills the request of an attempt.
func (l *lane) request(req wirecapnp.Request) error {
	publish, err := req.NewPublish()
	if err != nil {
		return err
	}
	id, err := publish.NewTopic()
	if err != nil {
		return err
	}
	id.SetHi(l.topic.IDHi)
	id.SetLo(l.topic.IDLo)
	publish.SetPartition(uint32(l.partition))
	publish.SetEpoch(l.epoch)
	publish.SetAckNone(l.box.cfg.AckNone)
	return l.topic.Write(publish.NewTopic())
}

// notSent settles an attempt that never left. A call before it whose own outcome is unknown stored nothing of it.
func (l *lane) notSent(ctx context.Context, f *session.Flight[*parcel], err error) {
	l.window.Sent(f)
	e := fault.Of(l.op, err)
	if e.Kind == wirecapnp.ErrorKind_outcomeUnknown || e.Kind == wirecapnp.ErrorKind_internal {
		e = &fault.Error{Kind: wirecapnp.ErrorKind_unavailable, Op: l.op, Err: fault.Plain(err)}
	}
	l.settle(ctx, answer{flight: f, err: e}, false)
}

// await waits for the answer of an attempt.
func (l *lane) await(ctx context.Context, f *session.Flight[*parcel], conn *frame.Client, pending *frame.Pending, until time.Time) {
	waitCtx, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	a := answer{flight: f}
	reply, err := pending.Wait(waitCtx)
	if err != nil {
		l.box.cfg.Link.Judge(ctx, conn, err)
		a.err = err
		select {
		case <-pending.Done():
		default:
			a.held = true
		}
		l.answers <- a
		return
	}
	defer reply.Release()
	out, err := reply.Response.Publish()
	if err != nil {
		a.err = &fault.Error{Kind: wirecapnp.ErrorKind_outcomeUnknown, Err: fault.Unreadable(err)}
		l.answers <- a
		return
	}
	a.epoch = out.Epoch()
	a.ack = Answer{Partition: l.partition, Offset: -1, Duplicate: out.Duplicate(), Durability: out.Durability(), AppendTime: out.AppendTime()}
	if out.OffsetKnown() {
		a.ack.Offset = int64(out.BaseOffset())
	}
	l.answers <- a
}

// arrived takes the answer of an attempt that was made.
func (l *lane) arrived(ctx context.Context, a answer) { l.settle(ctx, a, true) }

// settle says to the window, and to the callers, what an attempt came to; begun: it was made. A batch that is stored stays "being sent" for
// its callers until it leaves the window: it is not to be called unsent.
func (l *lane) settle(ctx context.Context, a answer, begun bool) {
	f, c := a.flight, a.flight.Value
	c.held = c.held || a.held
	l.epoch = max(l.epoch, a.epoch)
	if a.err == nil {
		c.ack = a.ack
		l.warn(ctx, a.ack)
		l.failures, l.retryAt = 0, time.Time{}
		l.window.Settle(f, session.Stored)
		return
	}
	err := fault.Of(l.op, a.err)
	if errors.Is(a.err, fault.ErrClosed) {
		err = &fault.Error{Kind: wirecapnp.ErrorKind_unavailable, Op: l.op, Err: fault.ErrClosed}
	}
	c.note(err)
	outcome := l.judge(ctx, f, err)
	l.window.Settle(f, outcome)
	if begun {
		c.end(outcome == session.Unknown)
	}
	if outcome == session.Unknown && err.Kind == wirecapnp.ErrorKind_internal && c.internals >= internalTries {
		l.window.Drop(f)
	}
	if outcome != session.Failed {
		l.retryAt = l.box.cfg.Now().Add(l.box.cfg.Backoff(l.failures, err.RetryAfter))
		l.failures++
	}
	l.box.cfg.Log.Log(ctx, gateway.RetryLevel(l.failures), "publish is not stored yet", "topic", l.box.cfg.Topic, "partition", l.partition, "attempt", f.Attempts, "err", err)
}

// warn says once a lane that acks are weaker than the topic asks for: whoever relies on it should hear of it.
func (l *lane) warn(ctx context.Context, a Answer) {
	if l.warned || l.box.cfg.AckNone || a.Durability >= l.topic.Durability {
		return
	}
	l.warned = true
	l.box.cfg.Log.WarnContext(ctx, "acks are weaker than the topic asks for", "topic", l.box.cfg.Topic, "partition", l.partition,
		"asked", l.topic.Durability.String(), "reached", a.Durability.String())
}

// judge says what an error means for the batch.
func (l *lane) judge(ctx context.Context, f *session.Flight[*parcel], err *fault.Error) session.Outcome {
	switch {
	case err.Kind == wirecapnp.ErrorKind_outcomeUnknown:
		return session.Unknown
	case err.Kind == wirecapnp.ErrorKind_internal:
		f.Value.internals++
		return session.Unknown
	case err.Kind == wirecapnp.ErrorKind_outOfOrder:
		return session.Gap
	case err.Kind == wirecapnp.ErrorKind_unknownProducer:
		return session.Forgotten
	case err.Kind == wirecapnp.ErrorKind_notFound:
		return l.gone(ctx, err)
	case err.Kind == wirecapnp.ErrorKind_staleRouting:
		return l.reroute(ctx, f)
	case err.Kind == wirecapnp.ErrorKind_notLeader && l.failures == 1:
		_, _ = l.refreshed(ctx) // for those who choose a partition; the gateway finds the leader by itself
		return session.Refused
	case fault.Retryable(err.Kind), err.Kind == wirecapnp.ErrorKind_canceled:
		return session.Refused
	default:
		return session.Failed
	}
}
