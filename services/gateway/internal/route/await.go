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

// Creator creates topics for clients that name missing ones.
type Creator interface {
	// EnsureTopic creates a topic with default settings; one that exists is no error. It does not wait for leaders.
	EnsureTopic(ctx context.Context, name topology.Name) error
}

// Ensure gives a topic with a table that has it. A missing one is created where creator is not nil, and its leaders are waited for; else it
// is waited for a moment, since it may just have been created.
func (r Router) Ensure(ctx context.Context, name topology.Name, creator Creator) (Table, topology.Topic, error) {
	if creator == nil {
		table := r.Await(ctx, name)
		topic, err := table.Topic(name)
		return table, topic, err
	}
	table := r.Table()
	topic, err := table.Topic(name)
	if !fault.Is(err, fault.NotFound) {
		return table, topic, err
	}
	if err := creator.EnsureTopic(ctx, name); err != nil {
		return table, topology.Topic{}, err
	}
	return r.AwaitActive(ctx, name)
}
