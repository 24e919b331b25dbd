package reconcile

import (
	"context"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// writer carries out one plan.
type writer struct {
	loop     *Loop
	view     *topology.View // what was planned from
	until    time.Time      // when the plan has grown old
	revision int64          // of the last write
	raced    bool           // a compare failed
}

// lives are the brokers whose live keys a change compares: that the one leader went and the other came is what it rests on.
func (c Change) lives() []partition.NodeID {
	if c.Why == "" {
		return nil
	}
	return []partition.NodeID{c.Given, c.Next.Leader.Broker}
}

// batches cuts changes so that each fits one Txn.
func batches(all []Change) [][]Change {
	var cut [][]Change
	from := 0
	brokers := map[partition.NodeID]struct{}{}
	note := func(c Change) {
		for _, id := range c.lives() {
			brokers[id] = struct{}{}
		}
	}
	for i, c := range all {
		note(c)
		if i-from == changesPerTxn || (len(brokers) > brokersPerTxn && i > from) {
			cut = append(cut, all[from:i])
			from = i
			clear(brokers)
			note(c)
		}
	}
	if from < len(all) {
		cut = append(cut, all[from:])
	}
	return cut
}

// change writes a batch in one Txn; where that fails, each alone, so that one changed partition does not keep the others waiting.
func (w *writer) change(ctx context.Context, batch []Change) error {
	ok, err := w.tryChange(ctx, batch)
	if err != nil || ok {
		return err
	}
	if len(batch) == 1 {
		w.lost(batch[0])
		return nil
	}
	for i := range batch {
		ok, err := w.tryChange(ctx, batch[i:i+1])
		if err != nil {
			return err
		}
		if !ok {
			w.lost(batch[i])
		}
	}
	return nil
}

func (w *writer) tryChange(ctx context.Context, batch []Change) (bool, error) {
	var compares []topology.Compare
	var ops []topology.Op
	brokers := map[partition.NodeID]struct{}{}
	for _, c := range batch {
		key := topology.PartitionKey(c.ID)
		value, err := topology.Encode(c.Next)
		if err != nil {
			return false, err //nolint:wrapcheck // names the type.
		}
		ops = append(ops, topology.Op{Key: key, Value: value})
		compares = append(compares, topology.Compare{Key: key, Target: topology.CompareModRevision, Want: c.ModRevision})
		for _, id := range c.lives() {
			if _, have := brokers[id]; !have {
				brokers[id] = struct{}{}
				compares = append(compares, w.liveness(id))
			}
		}
	}
	ok, err := w.write(ctx, compares, ops)
	if !ok || err != nil {
		return false, err
	}
	for _, c := range batch {
		w.done(c)
	}
	return true, nil
}

// done tells of a change that was written.
func (w *writer) done(c Change) {
	cfg := w.loop.cfg
	cfg.Planner.Done(c, cfg.Clock.Now())
	if c.Why != "" {
		cfg.Metrics.nominations.WithLabelValues(string(c.Why)).Inc()
		cfg.Log.Info("nominated leader", "partition", c.ID.String(), "epoch", uint64(c.Next.Epoch),
			"node", uint64(c.Next.Leader.Broker), "incarnation", uint64(c.Next.Leader.Incarnation), "why", string(c.Why))
	}
	if c.Move != "" {
		cfg.Metrics.moves.WithLabelValues(string(c.Move), string(c.Reason)).Inc()
		cfg.Log.Info("changed members", "partition", c.ID.String(), "epoch", uint64(c.Next.Epoch), "step", string(c.Move), "why", string(c.Reason))
	}
}

// liveness compares that a broker's live key is as the plan saw it.
func (w *writer) liveness(id partition.NodeID) topology.Compare {
	compare := topology.Compare{Key: topology.BrokerLiveKey(id), Target: topology.CompareModRevision}
	if live := w.view.Brokers[id].Live; live != nil {
		compare.Want = live.ModRevision
	}
	return compare
}

func (w *writer) lost(c Change) {
	w.raced = true
	w.loop.cfg.Metrics.lost.Inc()
	w.loop.cfg.Log.Debug("change lost a race", "partition", c.ID.String(), "epoch", uint64(c.Next.Epoch))
}

func (w *writer) collect(ctx context.Context, c Collection) error {
	ops := make([]topology.Op, len(c.Keys))
	for i, key := range c.Keys {
		ops[i] = topology.Op{Key: key, Delete: true}
	}
	ok, err := w.write(ctx, c.Compares, ops)
	if err != nil {
		return err
	}
	if !ok {
		w.raced = true
		return nil
	}
	w.loop.cfg.Metrics.collected.Add(float64(len(c.Keys)))
	w.loop.cfg.Log.Info("removed keys of a topic that is gone", "topic", c.Topic.String(), "keys", len(c.Keys))
	return nil
}

func (w *writer) write(ctx context.Context, compares []topology.Compare, ops []topology.Op) (bool, error) {
	cfg := w.loop.cfg
	if cfg.Clock.Now().After(w.until) {
		return false, errStale
	}
	guard, err := cfg.Office.Guard()
	if err != nil {
		return false, err //nolint:wrapcheck // says all.
	}
	result, err := cfg.Store.Txn(ctx, append([]topology.Compare{guard}, compares...), ops)
	if err != nil {
		return false, fault.Wrap("reconcile", err)
	}
	if !result.Succeeded {
		cfg.Office.Doubt()
		return false, nil
	}
	w.revision = result.Revision
	return true, nil
}
