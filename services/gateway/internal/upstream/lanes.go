package upstream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/route"
)

// Publish is one batch on its way to a partition's leader.
type Publish struct {
	Partition partition.ID
	Epoch     partition.Epoch // the highest that the producer has seen
	Body      []byte          // one whole batch; it must not change until Free
	AckNone   bool
	// Repeatable: a leader knows the batch again, by its producer and sequence or by its Idempotency-Key; an unknown outcome may be resolved by
	// sending it again.
	Repeatable bool
	// Done gets the answer, once: a reply, which it releases, or a fault. It must not wait for long.
	Done func(*frame.Reply, error)
	// Free is called once, when Body is not used any more; not before Done.
	Free func()
}

func (p *Publish) fill(req wirecapnp.Request, epoch partition.Epoch) error {
	publish, err := req.NewPublish()
	if err != nil {
		return err //nolint:wrapcheck // frame says what it was building.
	}
	publish.SetPartition(uint32(p.Partition.Index))
	publish.SetEpoch(uint64(max(p.Epoch, epoch)))
	publish.SetAckNone(p.AckNone)
	return setTopic(publish.NewTopic, p.Partition.Topic)
}

// lanes send the publishes of one Caller, those of a partition in order.
type lanes struct {
	caller *Caller
	work   sync.WaitGroup
	mu     struct {
		sync.Mutex
		byPartition map[partition.ID]*lane
		closed      bool
	}
}

func newLanes(caller *Caller) *lanes {
	l := &lanes{caller: caller}
	l.mu.byPartition = map[partition.ID]*lane{}
	return l
}

// item is a publish in a lane.
type item struct {
	Publish
	ctx   context.Context //nolint:containedctx // a queued call carries its caller's context to the goroutine that makes it.
	order uint64
	turn  *turn        // its attempts
	by    route.Leader // who refused the last attempt
	cause error        // why
	loose []attempt    // given up, but perhaps still reading Body
	// perhaps: an attempt had no answer. What a later one is refused for does not say that nothing is stored.
	perhaps bool
}

// attempt is a request on a connection.
type attempt struct {
	client  *frame.Client
	pending *frame.Pending
}

// lane is the order of one partition. Its fields are guarded by lanes.mu, but for leader, which belongs to its worker. It exists as long
// as something is queued or in flight.
type lane struct {
	lanes    *lanes
	id       partition.ID
	queue    []*item // to send, in order
	refused  []*item // to send again, when nothing is in flight any more
	inFlight int
	arrived  uint64
	working  bool
	landed   chan struct{} // capacity 1: something in flight has ended
	leader   route.Leader  // whom the ones in flight were sent to
}

// Submit takes a publish; it does not wait. ctx bounds it. Submits of one partition that follow each other are sent in that order.
func (c *Caller) Submit(ctx context.Context, p Publish) {
	l := c.lanes
	l.mu.Lock()
	if l.mu.closed {
		l.mu.Unlock()
		p.Done(nil, errClosing())
		p.Free()
		return
	}
	ln := l.mu.byPartition[p.Partition]
	if ln == nil {
		ln = &lane{lanes: l, id: p.Partition, landed: make(chan struct{}, 1)}
		l.mu.byPartition[p.Partition] = ln
	}
	ln.arrived++
	ln.queue = append(ln.queue, &item{Publish: p, ctx: ctx, order: ln.arrived})
	ln.wake()
	l.mu.Unlock()
}

// refuse lets in no more.
func (l *lanes) refuse() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.closed = true
}

// wake needs mu.
func (ln *lane) wake() {
	if !ln.working {
		ln.working = true
		ln.lanes.work.Go(ln.run)
	}
}

// run sends what is queued, and ends when nothing is.
func (ln *lane) run() {
	for {
		next, pause := ln.next()
		if next == nil {
			return
		}
		ln.send(next, pause)
	}
}

// next gives what to send now; pause says that it is the first of those that were refused. nil: nothing, and the worker is no more.
func (ln *lane) next() (next *item, pause bool) {
	for {
		ln.lanes.mu.Lock()
		if len(ln.refused) > 0 && ln.inFlight > 0 { // what is behind a refused one waits for it
			ln.lanes.mu.Unlock()
			<-ln.landed
			continue
		}
		if len(ln.refused) > 0 {
			slices.SortFunc(ln.refused, func(a, b *item) int { return cmp.Compare(a.order, b.order) })
			ln.queue = append(ln.refused, ln.queue...)
			ln.refused = nil
			pause = true
		}
		if len(ln.queue) == 0 {
			ln.working = false
			if ln.inFlight == 0 {
				delete(ln.lanes.mu.byPartition, ln.id)
			}
			ln.lanes.mu.Unlock()
			return nil, false
		}
		next = ln.queue[0]
		ln.queue[0] = nil
		ln.queue = ln.queue[1:]
		ln.lanes.mu.Unlock()
		return next, pause
	}
}

// send makes attempts at an item until it is in flight or has its answer.
func (ln *lane) send(it *item, pause bool) {
	cluster := ln.lanes.caller.cluster
	if it.turn == nil {
		it.turn = ln.lanes.caller.turn(ln.id)
	}
	if pause && it.cause != nil {
		if err := it.turn.next(it.ctx, it.by, it.cause, true); err != nil {
			ln.settle(it, err)
			return
		}
	}
	for {
		leader, err := cluster.router.Table().Leader(ln.id)
		if err == nil {
			var sent bool
			if sent, err = ln.attempt(it, leader); sent {
				return
			}
		}
		if leader == (route.Leader{}) && it.turn.lasts(err) {
			if why := ln.lanes.caller.Unfit(it.ctx, ln.id); why != nil {
				ln.settle(it, why)
				return
			}
		}
		if err == nil {
			continue // those in flight at an earlier leader have landed: look again
		}
		if err := it.turn.next(it.ctx, leader, err, refused(err)); err != nil {
			ln.settle(it, err)
			return
		}
	}
}

// attempt sends an item, or leaves it behind one that was refused meanwhile: then sent is true, too. An error says that it was not sent.
func (ln *lane) attempt(it *item, leader route.Leader) (sent bool, err error) {
	if !ln.join(it.ctx, leader) {
		return false, nil
	}
	client, err := ln.lanes.caller.connect(it.ctx, ln.id, leader)
	if err != nil {
		return false, err
	}
	ln.lanes.mu.Lock()
	if len(ln.refused) > 0 {
		ln.refused = append(ln.refused, it)
		ln.lanes.mu.Unlock()
		return true, nil
	}
	ln.inFlight++
	ln.lanes.mu.Unlock()
	pending, err := client.Start(it.ctx, func(req wirecapnp.Request) error { return it.fill(req, leader.Epoch) }, it.Body)
	if err != nil {
		ln.land(nil)
		return false, Fault(err)
	}
	ln.lanes.work.Go(func() { ln.answer(it, attempt{client, pending}, leader) })
	return true, nil
}

// join makes sure that nothing is in flight at another leader: those answers come first. False: look again.
func (ln *lane) join(ctx context.Context, leader route.Leader) bool {
	if ln.leader == leader {
		return true
	}
	ln.lanes.mu.Lock()
	idle := ln.inFlight == 0
	ln.lanes.mu.Unlock()
	if idle || ctx.Err() != nil {
		ln.leader = leader
		return true
	}
	select {
	case <-ln.landed:
	case <-ctx.Done():
	}
	return false
}

// answer waits for an item in flight.
func (ln *lane) answer(it *item, sent attempt, leader route.Leader) {
	cluster := ln.lanes.caller.cluster
	grace := cluster.limits.MovedGrace
	if it.Repeatable {
		grace = 0 // the new leader's answer is as good
	}
	reply, err := cluster.await(it.ctx, sent.pending, ln.id, leader, grace)
	if errors.Is(err, errMoved) {
		ln.lanes.caller.links.retire(leader.Addr, sent.client)
	}
	err = Fault(err)
	it.perhaps = it.perhaps || fault.Is(err, fault.OutcomeUnknown)
	select {
	case <-sent.pending.Done():
	default:
		it.loose = append(it.loose, sent)
	}
	if it.ctx.Err() == nil && (refused(err) || it.Repeatable && fault.Is(err, fault.OutcomeUnknown)) {
		it.by, it.cause = leader, err
		ln.land(it)
		return
	}
	ln.land(nil)
	ln.finish(it, reply, err)
}

// settle answers an item that is not in flight.
func (ln *lane) settle(it *item, err error) {
	if len(it.loose) == 0 {
		ln.finish(it, nil, err)
		return
	}
	ln.lanes.work.Go(func() { ln.finish(it, nil, err) })
}

// finish answers an item and frees its body. A connection may still read the body of an attempt that was given up; where that takes too
// long, the connection goes.
func (ln *lane) finish(it *item, reply *frame.Reply, err error) {
	cluster := ln.lanes.caller.cluster
	if err != nil && it.perhaps && !fault.Is(err, fault.OutcomeUnknown) {
		err = &fault.Error{Kind: fault.OutcomeUnknown, Op: "publish again, after an attempt without an answer", Err: err}
	}
	if fault.Is(err, fault.OutcomeUnknown) {
		cluster.metrics.unknown.Inc()
	}
	it.Done(reply, err)
	for _, sent := range it.loose {
		timer := cluster.clock.NewTimer(cluster.limits.AbandonGrace)
		select {
		case <-sent.pending.Done():
		case <-timer.C():
			_ = sent.client.Close() // the outcomes of this client's other calls at this broker were as unknown
		}
		timer.Stop()
	}
	it.Free()
}

// land notes that one less is in flight, and which one has to be sent again.
func (ln *lane) land(again *item) {
	ln.lanes.mu.Lock()
	defer ln.lanes.mu.Unlock()
	ln.inFlight--
	if again != nil {
		ln.refused = append(ln.refused, again)
		ln.wake()
	}
	switch {
	case ln.working:
		select {
		case ln.landed <- struct{}{}:
		default:
		}
	case ln.inFlight == 0:
		delete(ln.lanes.mu.byPartition, ln.id)
	}
}
