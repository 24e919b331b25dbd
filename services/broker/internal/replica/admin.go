package replica

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/petition"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

func (r *Replica) request(p petition.Petition) {
	if !r.admin.Add(p) {
		p.Done(&fault.Error{Kind: fault.Overloaded, Op: "append control batch: too many requests wait", RetryAfter: overloadWait})
	}
}

// proposeControls appends what the replica itself has to say: requests, Seals. Called between steps of the core.
func (r *Replica) proposeControls() {
	if r.failure != nil {
		return
	}
	r.digest()
	r.admin.Next(r.mayPropose, func(fill func(batchcapnp.Control) error) (partition.Offset, error) {
		err := r.appendControl(fill)
		return r.core.End(), err
	})
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

func (r *Replica) mayPropose() error {
	if !r.core.CanPropose() {
		return r.notLeader()
	}
	return nil
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
