package route

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
)

// UnknownGrace is how long a topic that the View does not show is waited for: it may just have been created through another gateway.
const UnknownGrace = 500 * time.Millisecond

// answerMargin is what AwaitActive leaves of a caller's time for the answer: a tenth, at most this.
const answerMargin = 500 * time.Millisecond

// Await gives a table that has all the topics, or the newest one if some of them do not show within UnknownGrace.
func (r Router) Await(ctx context.Context, names ...topology.Name) Table {
	all := func(t Table) bool {
		for _, name := range names {
			if _, err := t.Topic(name); err != nil {
				return false
			}
		}
		return true
	}
	if table := r.Table(); all(table) {
		return table
	}
	wait, cancel := context.WithTimeout(ctx, UnknownGrace)
	defer cancel()
	if table, err := r.WaitFor(wait, all); err == nil {
		return table
	}
	return r.Table()
}

// AwaitActive waits until a topic is there and every partition of it has a leader that serves. When the caller's time nears its end
// before, a topic that is there is given all the same: its partitions say who leads them.
func (r Router) AwaitActive(ctx context.Context, name topology.Name) (Table, topology.Topic, error) {
	wait := ctx
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(r.clock.Now())
		var cancel context.CancelFunc
		wait, cancel = context.WithTimeout(ctx, left-min(left/10, answerMargin))
		defer cancel()
	}
	table, err := r.WaitFor(wait, func(t Table) bool {
		topic, err := t.Topic(name)
		return err == nil && t.AllActive(topic)
	})
	if err != nil {
		table = r.Table()
	}
	if ctx.Err() != nil {
		return table, topology.Topic{}, fault.Wrap("wait for topic "+name.String(), context.Cause(ctx))
	}
	topic, err := table.Topic(name)
	return table, topic, err
}
