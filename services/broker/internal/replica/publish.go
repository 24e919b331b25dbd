package replica

import (
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/inbox"
	"github.com/seedqueue/sq/services/broker/internal/producer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/waitlist"
)

// Publish has a batch appended; p.Done gets the result. It does not wait. Batches of one caller are appended in the order of its calls.
func (r *Replica) Publish(p Publish) {
	q := queued{Publish: p}
	err := r.check(&q)
	if err == nil {
		switch r.mail.Admit(q, q.header.Size) {
		case inbox.Admitted:
			return
		case inbox.Overfull:
			err = &fault.Error{Kind: fault.Overloaded, Op: "publish: too many batches wait for the disk", RetryAfter: overloadWait}
		case inbox.Stopped:
			err = r.refusal(errStopped)
		}
	}
	r.deps.Metrics.refused.Inc()
	q.finish(Published{}, err)
}

// queued is a published batch that waits to be appended.
type queued struct {
	Publish
	header batch.Header
}

// finish gives the bytes back and answers.
func (q *queued) finish(p Published, err error) {
	if q.Release != nil {
		q.Release()
	}
	q.Done(p, err)
}

// check refuses what can be refused without the replica's goroutine.
func (r *Replica) check(q *queued) error {
	h, err := batch.ParseHeader(q.Msg)
	if err == nil {
		err = h.CheckPublish()
	}
	if err != nil || h.Size != len(q.Msg) {
		return fault.Errorf(fault.Invalid, "publish %d bytes: %w", len(q.Msg), err)
	}
	q.header = h
	v := r.view.Load()
	switch {
	case !v.active:
		return r.inactive("publish to ", v)
	case q.Epoch > v.epoch:
		return staleEpoch("publish", q.Epoch, v.epoch)
	}
	return fault.Wrap("publish", r.deps.Refusal(false))
}

func staleEpoch(op string, caller, own partition.Epoch) error {
	return &fault.Error{
		Kind: fault.StaleEpoch, Op: op, Epoch: uint64(own),
		Err: fault.Errorf(fault.StaleEpoch, "the caller has seen epoch %d, this replica knows %d", caller, own),
	}
}

// propose makes the next group of what is queued, once the disk is free (doc.go 2): deduplicates and appends in one step (doc.go 3).
func (r *Replica) propose() {
	r.proposeControls()
	if len(r.queue) == 0 || r.failure != nil || !r.io.Idle() && !r.worthAhead() {
		return
	}
	if !r.core.CanPropose() {
		r.refuseQueue(r.notLeader())
		return
	}
	if err := r.deps.Refusal(true); err != nil {
		r.refuseQueue(fault.Wrap("publish", err))
		return
	}
	base := r.core.End()
	group := make([]quorum.Entry, 0, min(len(r.queue), r.cfg.Limits.GroupBatches))
	taken, bytes := 0, 0
	for i := range r.queue {
		q := &r.queue[i]
		if len(group) == r.cfg.Limits.GroupBatches || len(group) > 0 && bytes+q.header.Size > r.cfg.Limits.GroupBytes {
			break
		}
		taken++
		if !r.admitOne(q, base) {
			continue
		}
		// The table learns of the batch with its place before the next one is checked; the core gives the same place to it below.
		q.header.BaseOffset = uint64(base)
		group = append(group, quorum.Entry{Header: q.header, Msg: q.Msg})
		r.fold.Producers.Append(&q.header)
		base = partition.Offset(q.header.NextOffset())
		bytes += q.header.Size
	}
	r.queue = append(r.queue[:0], r.queue[taken:]...)
	if len(group) > 0 {
		r.step(quorum.Propose{Entries: group, Time: r.time.Micros})
		r.waiting.Stamped(len(group), func(i int) int64 { return group[i].AppendTime })
	}
}

// worthAhead tells whether so much is queued that it is better written while the last group is synced than in the next one: then the disk
// need not wait for it. Little costs little to write, and shares a write if it waits.
func (r *Replica) worthAhead() bool {
	if !r.io.Ahead() {
		return false
	}
	bytes := 0
	for i := range r.queue {
		if bytes += r.queue[i].header.Size; bytes >= aheadBytes {
			return true
		}
	}
	return false
}

// admitOne answers a batch that is not to be appended, or makes it wait for its commit and tells to append it at base.
func (r *Replica) admitOne(q *queued, base partition.Offset) bool {
	select {
	case <-q.Canceled:
		r.refuse(q, fault.Errorf(fault.DeadlineExceeded, "publish: the caller stopped waiting before the batch was appended"))
		return false
	default:
	}
	switch v := r.fold.Producers.Check(&q.header); v.Outcome {
	case producer.Fresh:
		r.awaitCommit(q, base)
		return true
	case producer.Duplicate:
		r.deps.Metrics.duplicates.Inc()
		r.awaitOther(q, v.Base, v.Last)
	case producer.OldDuplicate:
		r.deps.Metrics.duplicates.Inc()
		p := r.published()
		p.Duplicate = true
		r.answer(q, p, nil)
	case producer.Reused:
		r.refuse(q, fault.Errorf(fault.SequenceReused, "publish: producer %d sent another batch as sequence %d", q.header.ProducerID, q.header.BaseSequence))
	case producer.KeyReused:
		r.refuse(q, fault.Errorf(fault.Conflict, "publish: the Idempotency-Key was used for other records within the last %v", producer.Window))
	case producer.Gap:
		r.refuse(q, &fault.Error{
			Kind: fault.OutOfOrder, Offset: v.Next, Err: fault.Errorf(fault.OutOfOrder,
				"publish: producer %d sent sequence %d, %d is next", q.header.ProducerID, q.header.BaseSequence, v.Next),
		})
	case producer.Unknown:
		r.refuse(q, fault.Errorf(fault.UnknownProducer, "publish: no batch of producer %d is known, and sequence %d is not its first",
			q.header.ProducerID, q.header.BaseSequence))
	}
	return false
}

// published is an answer without an offset.
func (r *Replica) published() Published {
	return Published{Epoch: r.core.LastEpoch(), HighWatermark: r.core.HighWatermark(), LogStart: r.fold.Tier.LogStart(), Durability: r.ackAs}
}

// answer ends a publish whose bytes the log does not need.
func (r *Replica) answer(q *queued, p Published, err error) {
	r.mail.Answered(1, q.header.Size)
	q.finish(p, err)
}

func (r *Replica) refuse(q *queued, err error) {
	r.deps.Metrics.refused.Inc()
	r.answer(q, Published{}, err)
}

// refuseQueue refuses everything that is not appended yet.
func (r *Replica) refuseQueue(err error) {
	for i := range r.queue {
		r.refuse(&r.queue[i], err)
		r.queue[i] = queued{}
	}
	r.queue = r.queue[:0]
}

type waiter = waitlist.Waiter[func(Published, error)]

// awaitCommit makes a batch wait that the core is about to append at base.
func (r *Replica) awaitCommit(q *queued, base partition.Offset) {
	if q.Release != nil {
		r.release = append(r.release, q.Release)
	}
	w := waiter{Base: base, Last: base + partition.Offset(q.header.LastOffsetDelta), Size: q.header.Size, Done: q.Done, Canceled: q.Canceled}
	if q.AckNone {
		p := r.published()
		p.Durability = wirecapnp.Durability_none
		q.Done(p, nil)
		w.Done, w.Canceled = nil, nil
	}
	r.waiting.Add(w)
}

// awaitOther answers a batch that is in the log at base, now or when it is committed (R5).
func (r *Replica) awaitOther(q *queued, base, last partition.Offset) {
	if q.Release != nil {
		q.Release()
	}
	w := waiter{Base: base, Last: last, Size: q.header.Size, Duplicate: true, Done: q.Done, Canceled: q.Canceled}
	if w.End() <= r.core.HighWatermark() {
		r.mail.Answered(1, w.Size)
		waiters{r}.Succeed(&w)
		return
	}
	r.waiting.Duplicate(w)
}

// waiters is the replica as its waitlist sees it.
type waiters struct{ *Replica }

// Succeed implements waitlist.Host.
func (r waiters) Succeed(w *waiter) {
	if w.Done == nil {
		return // answered when it was admitted
	}
	p := r.published()
	p.BaseOffset, p.LastOffset, p.OffsetKnown, p.Duplicate, p.AppendTime = w.Base, w.Last, true, w.Duplicate, w.AppendTime
	w.Done(p, nil)
}

// Fail implements waitlist.Host.
func (r waiters) Fail(w *waiter, err error) {
	if fault.Is(err, fault.OutcomeUnknown) {
		r.deps.Metrics.unknown.Inc()
	} else {
		r.deps.Metrics.refused.Inc()
	}
	if w.Done != nil {
		w.Done(Published{}, err)
	}
}

// Answered implements waitlist.Host.
func (r waiters) Answered(batches, bytes int) { r.mail.Answered(batches, bytes) }
