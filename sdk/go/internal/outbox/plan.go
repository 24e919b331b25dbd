package outbox

import (
	"context"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
)

// plan is where records go at one moment. It does not change.
type plan struct {
	topic *gateway.Topic
	lanes []*lane // by partition
}

// planFor gives the plan for records, asking for metadata the first time, and checking what can be checked before.
func (p *Outbox) planFor(ctx context.Context, named int) (*plan, error) {
	if p.closed.Load() {
		return nil, p.closedError()
	}
	now := p.plan.Load()
	if now == nil {
		topic, err := p.cfg.LookUp(ctx, true)
		if err != nil {
			return nil, err
		}
		now = p.adopt(topic)
	}
	if named >= 0 {
		if err := now.topic.Check(named); err != nil {
			return nil, fault.Of("publish to "+p.cfg.Topic, err)
		}
	}
	return now, nil
}

// adopt makes a plan of metadata. Lanes of the same topic stay; a topic made anew has its own.
func (p *Outbox) adopt(topic *gateway.Topic) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.plan.Load()
	next := &plan{topic: topic, lanes: make([]*lane, len(topic.Partitions))}
	if old != nil && old.topic.SameAs(topic) {
		copy(next.lanes, old.lanes)
	}
	for i, l := range next.lanes {
		if l == nil {
			next.lanes[i] = newLane(p, topic, i)
			p.mu.lanes = append(p.mu.lanes, next.lanes[i])
		}
	}
	p.plan.Store(next)
	return next
}

// choose gives the partition of a record, and the version of the ranges if it went by them.
func (p *Outbox) choose(plan *plan, key []byte, named int) (partition int, mapVersion uint32) {
	switch {
	case named >= 0:
		return named, 0
	case key != nil:
		return plan.topic.OfHash(batch.KeyHash(key)), plan.topic.MapVersion
	}
	if at := int(p.sticky.Load()); at >= 0 && at < len(plan.lanes) {
		return at, 0
	}
	at := p.pick(plan)
	p.sticky.Store(int64(at))
	return at, 0
}

// pick draws a partition, one with a leader if there is such.
func (p *Outbox) pick(plan *plan) int {
	at := 0
	for range 4 {
		at = p.cfg.Chance(len(plan.lanes))
		if plan.topic.Partitions[at].Leader != 0 {
			break
		}
	}
	return at
}

// unstick sends the records without a key elsewhere, since a batch of them is complete.
func (p *Outbox) unstick(partition int) {
	if plan := p.plan.Load(); plan != nil && len(plan.lanes) > 1 {
		p.sticky.CompareAndSwap(int64(partition), int64(p.pick(plan)))
	}
}
