package replica

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

// adminQueueMax bounds the requests that wait for a control batch.
const adminQueueMax = 256

// request wants a control batch in the log. It decides when its turn comes, so that it sees what those before it did.
type request struct {
	// decide gives what to append, or nil if there is nothing to do.
	decide func() (func(batchcapnp.Control) error, error)
	// done is called once: when the batch is committed, when there was nothing to do, or with the error.
	done func(error)
}

// adminQueue takes requests one at a time: the next is decided when the batch of the one before is committed.
type adminQueue struct {
	requests []request
	pending  *request
	end      partition.Offset // of the pending one's batch
}

func (r *Replica) request(q request) {
	if len(r.admin.requests) >= adminQueueMax {
		q.done(&fault.Error{Kind: fault.Overloaded, Op: "append control batch: too many requests wait", RetryAfter: overloadWait})
		return
	}
	r.admin.requests = append(r.admin.requests, q)
}

// idle tells whether no request is pending or waits.
func (a *adminQueue) idle() bool { return a.pending == nil && len(a.requests) == 0 }

// committed ends the pending request if its batch is.
func (a *adminQueue) committed(hw partition.Offset) {
	if a.pending != nil && a.end <= hw {
		done := a.pending.done
		a.pending = nil
		done(nil)
	}
}

// cut fails the pending request if its batch is gone.
func (a *adminQueue) cut(to partition.Offset, err error) {
	if a.pending != nil && a.end > to {
		done := a.pending.done
		a.pending = nil
		done(err)
	}
}

// stop fails everything.
func (a *adminQueue) stop(err error) {
	if a.pending != nil {
		a.pending.done(err)
		a.pending = nil
	}
	for _, q := range a.requests {
		q.done(err)
	}
	a.requests = nil
}

// proposeControls appends what the replica itself has to say: requests, Seals. Called between steps of the core.
func (r *Replica) proposeControls() {
	if r.failure != nil {
		return
	}
	r.digest()
	for r.admin.pending == nil && len(r.admin.requests) > 0 {
		q := r.admin.requests[0]
		r.admin.requests = r.admin.requests[1:]
		r.decide(q)
	}
	for r.time.Elapsed >= r.retryAt && r.core.CanPropose() {
		seal, ok := r.closing.Propose(r.fold.Tier.SealedEnd(), r.core.HighWatermark(), r.core.End())
		if !ok {
			break
		}
		err := r.appendControl(func(c batchcapnp.Control) error { return sealed.FillSealControl(c, seal) })
		if err != nil {
			r.fail(fault.Wrap("append seal", err))
			return
		}
	}
}

func (r *Replica) decide(q request) {
	if !r.core.CanPropose() {
		q.done(r.notLeader())
		return
	}
	fill, err := q.decide()
	if err != nil || fill == nil {
		q.done(err)
		return
	}
	if err := r.appendControl(fill); err != nil {
		q.done(err)
		return
	}
	r.admin.pending, r.admin.end = &q, r.core.End()
}

// appendControl appends a control batch. Only while the core can propose.
func (r *Replica) appendControl(fill func(batchcapnp.Control) error) error {
	msg, err := batch.BuildControl(nil, fill)
	if err != nil {
		return fault.Errorf(fault.TooLarge, "build control batch: %w", err)
	}
	h, err := batch.ParseHeader(msg)
	if err != nil {
		return fault.Errorf(fault.Internal, "build control batch: %w", err)
	}
	r.step(quorum.Propose{Entries: []quorum.Entry{{Header: h, Msg: msg}}, Time: r.time.Micros})
	return nil
}

// ask runs a question on the replica's goroutine and waits for its answer. If ctx ends first, unsure says whether the outcome is unknown then.
func ask[T any](ctx context.Context, r *Replica, unsure bool, question func(answer func(T, error))) (T, error) {
	type result struct {
		value T
		err   error
	}
	answers := make(chan result, 1)
	var none T
	if !r.mail.Post(func() { question(func(v T, err error) { answers <- result{v, err} }) }) {
		return none, fault.Wrap("ask replica", errStopped)
	}
	r.errands.Await(func() bool { return len(answers) > 0 || ctx.Err() != nil })
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		if unsure {
			return none, fault.Errorf(fault.OutcomeUnknown, "wait for the replica: %w", context.Cause(ctx))
		}
		return none, fault.Wrap("wait for the replica", ctx.Err())
	}
}
