package upstream

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/route"
)

// Caller makes calls for one client. Replies are the callers' to Release.
type Caller struct {
	cluster *Cluster
	links   *links
	lanes   *lanes
	life    context.Context //nolint:containedctx // the caller's own life, not a call's.
	end     context.CancelFunc
}

// Close ends the connections and joins what is in flight, which ends with an error.
func (c *Caller) Close() {
	c.end()
	c.lanes.refuse()
	c.links.close()
	c.lanes.work.Wait()
}

// fill writes a request for a leader of an epoch.
type fill func(req wirecapnp.Request, epoch partition.Epoch) error

// setTopic writes the two words of a topic's identity.
func setTopic(newTopic func() (batchcapnp.Uuid, error), topic partition.UUID) error {
	uuid, err := newTopic()
	if err != nil {
		return err //nolint:wrapcheck // frame says what it was building.
	}
	hi, lo := topic.Halves()
	uuid.SetHi(hi)
	uuid.SetLo(lo)
	return nil
}

// toLeader makes a call that may be repeated to whoever leads the partition.
func (c *Caller) toLeader(ctx context.Context, id partition.ID, fill fill) (*frame.Reply, error) {
	return c.toLeaderOr(ctx, id, fill, func(partition.NodeID) *frame.Reply { return nil })
}

// toLeaderOr is toLeader with somebody else to ask while the leader, 0 = none, cannot be.
func (c *Caller) toLeaderOr(ctx context.Context, id partition.ID, fill fill, other func(leader partition.NodeID) *frame.Reply) (*frame.Reply, error) {
	turn := c.turn(id)
	for {
		leader, err := c.cluster.router.Table().Leader(id)
		if err == nil {
			var reply *frame.Reply
			reply, err = c.ask(ctx, id, leader, func(req wirecapnp.Request) error { return fill(req, leader.Epoch) })
			if err == nil {
				return reply, nil
			}
		} else if turn.lasts(err) {
			// An election that takes so long may never end: a damaged log is no leader's, and can be read.
			if reply, why := c.askNominee(ctx, id, func(req wirecapnp.Request) error { return fill(req, 0) }); why == nil && reply != nil {
				return reply, nil
			} else if fault.Is(why, fault.Corrupt) {
				return nil, why
			}
		}
		if again(err) && ctx.Err() == nil {
			if reply := other(leader.Node); reply != nil {
				return reply, nil
			}
		}
		if err := turn.next(ctx, leader, err, again(err)); err != nil {
			return nil, readFault(ctx, err)
		}
	}
}

// askNominee makes one attempt at who was asked to lead a partition that nobody leads; nil and nil where there is no such broker.
func (c *Caller) askNominee(ctx context.Context, id partition.ID, fill func(wirecapnp.Request) error) (*frame.Reply, error) {
	nominee, ok := c.cluster.router.Table().Nominee(id)
	if !ok {
		return nil, nil //nolint:nilnil // said above.
	}
	return c.askAt(ctx, nominee.Addr, fill)
}

// Unfit asks who was nominated for a partition that nobody leads why it does not; nil where there is no such broker, or no such reason. The error is
// a fault.
func (c *Caller) Unfit(ctx context.Context, id partition.ID) error {
	reply, err := c.askNominee(ctx, id, func(req wirecapnp.Request) error { return At{Latest: true}.fill(req, id, 0) })
	if reply != nil {
		reply.Release()
	}
	if fault.Is(err, fault.Corrupt) {
		return err
	}
	return nil
}

// lasts tells whether nobody leads, and that has been so for a while.
func (t *turn) lasts(err error) bool {
	return fault.Is(err, fault.Unavailable) && t.step >= t.cluster.limits.RetryLast
}

// ask makes one attempt at a leader. The error is a fault.
func (c *Caller) ask(ctx context.Context, id partition.ID, leader route.Leader, fill func(wirecapnp.Request) error) (*frame.Reply, error) {
	client, err := c.connect(ctx, id, leader)
	if err != nil {
		return nil, err
	}
	pending, err := client.Start(ctx, fill)
	if err != nil {
		return nil, Fault(err)
	}
	reply, err := c.cluster.await(ctx, pending, id, leader, c.cluster.limits.MovedGrace)
	if errors.Is(err, errMoved) {
		c.links.retire(leader.Addr, client)
	}
	return reply, Fault(err)
}

// connect gives the connection to a leader, or fault.Unavailable as soon as another one leads.
func (c *Caller) connect(ctx context.Context, id partition.ID, leader route.Leader) (*frame.Client, error) {
	k, err := c.links.link(ctx, leader.Addr)
	if err != nil {
		return nil, err
	}
	select {
	case <-k.ready:
		return k.client, k.err
	default:
	}
	watched, end := c.cluster.while(ctx, id, leader, 0)
	defer end()
	select {
	case <-k.ready:
		return k.client, k.err
	case <-watched.Done():
		return nil, fault.Wrap("connect to "+leader.Addr, Fault(&frame.ConnError{Err: context.Cause(watched)}))
	}
}

// askAt makes one attempt at an address that is no leader's.
func (c *Caller) askAt(ctx context.Context, addr string, fill func(wirecapnp.Request) error) (*frame.Reply, error) {
	client, err := c.links.get(ctx, addr)
	if err != nil {
		return nil, err
	}
	reply, err := client.Call(ctx, fill)
	return reply, Fault(err)
}

// await waits for an answer, and gives it up a grace after the View names another leader.
func (c *Cluster) await(ctx context.Context, pending *frame.Pending, id partition.ID, leader route.Leader, grace time.Duration) (*frame.Reply, error) {
	timer := c.clock.NewTimer(c.limits.SuspectAfter)
	defer timer.Stop()
	select {
	case <-pending.Done():
		return pending.Wait(ctx)
	case <-ctx.Done():
		return pending.Wait(ctx)
	case <-timer.C():
	}
	watched, end := c.while(ctx, id, leader, grace)
	defer end()
	return pending.Wait(watched)
}

// while gives a context that ends, with errMoved, when another leader has served for a grace. end joins what watches.
func (c *Cluster) while(ctx context.Context, id partition.ID, leader route.Leader, grace time.Duration) (watched context.Context, end func()) {
	watched, giveUp := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.watch(watched, id, leader, grace, giveUp)
	}()
	return watched, func() {
		giveUp(nil)
		<-ended
	}
}

// watch calls giveUp once another leader has served for a grace.
func (c *Cluster) watch(ctx context.Context, id partition.ID, old route.Leader, grace time.Duration, giveUp context.CancelCauseFunc) {
	_, err := c.router.WaitFor(ctx, func(t route.Table) bool {
		now, err := t.Leader(id)
		return err == nil && now != old || fault.Is(err, fault.NotFound)
	})
	if err != nil {
		return // the answer came, or the call ended
	}
	timer := c.clock.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-timer.C():
		giveUp(errMoved)
	case <-ctx.Done():
	}
}

// turn paces the attempts of one call, or of a lane.
type turn struct {
	cluster *Cluster
	life    context.Context //nolint:containedctx // of the Caller: its end ends every wait.
	id      partition.ID
	started time.Time
	step    time.Duration
}

func (c *Caller) turn(id partition.ID) *turn {
	return &turn{cluster: c.cluster, life: c.life, id: id, started: c.cluster.clock.Now()}
}

// within gives a context that ends after d, and with the Caller.
func (t *turn) within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, d)
	stop := context.AfterFunc(t.life, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// next returns nil when the next attempt may be made: as soon as another leader is known, at the latest after a wait that doubles. It
// returns the error to answer where there is to be none: cause is final (repeat is false), ctx has ended or RetryFor is over.
func (t *turn) next(ctx context.Context, failed route.Leader, cause error, repeat bool) error {
	c := t.cluster
	if ctx.Err() != nil {
		return t.ended(ctx, cause)
	}
	if fault.Is(cause, fault.NotFound) && failed == (route.Leader{}) {
		return t.created(ctx, cause)
	}
	if t.life.Err() != nil {
		return errClosing()
	}
	if !repeat {
		return cause
	}
	if c.clock.Now().Sub(t.started) >= c.limits.RetryFor {
		return cause
	}
	c.metrics.retries.WithLabelValues(fault.KindOf(cause).String()).Inc()
	t.step = min(max(2*t.step, c.limits.RetryFirst), c.limits.RetryLast)
	wait, cancel := t.within(ctx, t.step)
	defer cancel()
	_, err := c.router.WaitFor(wait, func(table route.Table) bool {
		now, err := table.Leader(t.id)
		return err == nil && now != failed || fault.Is(err, fault.NotFound)
	})
	if err != nil && ctx.Err() != nil {
		return t.ended(ctx, cause)
	}
	return nil
}

// ended gives the error of a call whose context has ended while nothing was in flight.
func (t *turn) ended(ctx context.Context, cause error) error {
	if fault.Is(cause, fault.OutcomeUnknown) {
		return cause
	}
	return &fault.Error{Kind: fault.KindOf(context.Cause(ctx)), Op: "call the leader of partition " + strconv.FormatUint(uint64(t.id.Index), 10), Err: cause}
}

// created gives a topic that the View does not show a moment: it may just have been created through another gateway.
func (t *turn) created(ctx context.Context, cause error) error {
	c := t.cluster
	if c.clock.Now().Sub(t.started) >= c.limits.UnknownGrace {
		return cause
	}
	wait, cancel := t.within(ctx, c.limits.UnknownGrace)
	defer cancel()
	if _, err := c.router.WaitFor(wait, func(table route.Table) bool {
		_, err := table.Leader(t.id)
		return !fault.Is(err, fault.NotFound)
	}); err != nil {
		return cause
	}
	return nil
}
