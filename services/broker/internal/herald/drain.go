package herald

import (
	"context"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Drain asks for everything that this broker leads to be led elsewhere, and returns when that is so, as doc.go 3 says, at the latest after
// timeout; 0 = at once. Run must be running.
func (h *Herald) Drain(ctx context.Context, timeout time.Duration) {
	if timeout <= 0 {
		return
	}
	left := h.undrained()
	if left == 0 {
		return
	}
	h.cfg.Log.Info("broker hands over what it leads", "partitions", left, "timeout", timeout)
	h.draining.Store(true)
	select {
	case h.wake <- struct{}{}:
	default:
	}
	end := h.cfg.Clock.Now().Add(timeout)
	stall := h.cfg.Clock.Now().Add(stalledAfter)
	timer := h.cfg.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		changed := h.cfg.Topology.Changed()
		now, before := h.cfg.Clock.Now(), left
		if left = h.undrained(); left < before {
			stall = now.Add(stalledAfter)
		}
		if left == 0 {
			h.cfg.Log.Info("broker leads nothing any more")
			return
		}
		if !now.Before(end) || !now.Before(stall) {
			h.cfg.Log.Warn("broker stops before all that it leads is led elsewhere", "partitions", left)
			return
		}
		until := end
		if stall.Before(end) {
			until = stall
		}
		timer.Stop()
		timer.Reset(until.Sub(now))
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-timer.C():
		}
	}
}

// undrained counts the partitions that should not lose this broker yet: it leads them and another could, or their next leader needs its promise.
func (h *Herald) undrained() int {
	view, n := h.cfg.Topology.View(), 0
	unreached := map[partition.NodeID]bool{h.cfg.Self: true}
	for _, s := range h.cfg.Suspects.Suspects() {
		unreached[s.Broker] = true
	}
	couldLead := func(m partition.Member) bool { return !unreached[m.Broker] && view.Brokers[m.Broker].Live != nil }
	isSelf := func(m partition.Member) bool { return m.Broker == h.cfg.Self }
	for topic, all := range view.Partitions {
		if t, ok := view.Topics[topic]; !ok || t.Value.Deleted != nil {
			continue
		}
		for i := range all {
			a := &all[i].Value
			needed := a.Leader.Broker == h.cfg.Self && a.Leader.Incarnation == h.cfg.Incarnation ||
				a.Status == topology.Electing && slices.ContainsFunc(a.Base.Members, isSelf)
			if all[i].ModRevision != 0 && needed && slices.ContainsFunc(a.Members, couldLead) {
				n++
			}
		}
	}
	return n
}
