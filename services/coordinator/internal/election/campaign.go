package election

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// campaign tries to create the key. It is used by one goroutine.
type campaign struct {
	cfg         Config
	incarnation partition.Incarnation // 0 until the store has answered once
	silent      bool                  // the store does not answer, and that is logged
}

// run returns with a won term, or with false when ctx has ended.
func (c *campaign) run(ctx context.Context) (tenure, bool) {
	for ctx.Err() == nil {
		kv, held, revision, err := c.cfg.Store.Get(ctx, topology.CoordinatorKey)
		if err != nil {
			c.unanswered(ctx, err)
			continue
		}
		c.silent = false
		if c.incarnation == 0 {
			c.incarnation = partition.Incarnation(revision)
		}
		switch {
		case !held:
			won, ok, err := c.create(ctx)
			if ok {
				return won, true
			}
			if err != nil {
				c.unanswered(ctx, err)
			}
		case c.mine(kv):
			if err := c.clear(ctx, kv); err != nil {
				c.unanswered(ctx, err)
			}
		default:
			c.await(ctx, revision)
		}
	}
	return tenure{}, false
}

func (c *campaign) unanswered(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if !c.silent {
		c.cfg.Log.Warn("stand for coordinator", "err", err)
		c.silent = true
	}
	_ = backoff.Sleep(ctx, c.cfg.Clock, retryEvery) // the callers look at ctx
}

// mine tells whether the key is left from an earlier life of this id, or from an earlier term of this process: only one term of a process
// lives at a time, and none does while it campaigns.
func (c *campaign) mine(kv topology.KV) bool {
	live, err := topology.Decode[topology.Live](kv.Value)
	return err == nil && live.ID == c.cfg.Live.ID && live.Incarnation <= c.incarnation
}

// clear deletes an own old key and its lease.
func (c *campaign) clear(ctx context.Context, kv topology.KV) error {
	_, err := c.cfg.Store.Txn(ctx,
		[]topology.Compare{{Key: kv.Key, Target: topology.CompareModRevision, Want: kv.ModRevision}},
		[]topology.Op{{Key: kv.Key, Delete: true}})
	if err != nil {
		return fmt.Errorf("replace own old key: %w", err)
	}
	if kv.Lease == 0 {
		return nil
	}
	if err := c.cfg.Store.Revoke(ctx, kv.Lease); err != nil && !errors.Is(err, topology.ErrLeaseNotFound) {
		return fmt.Errorf("revoke own old lease: %w", err)
	}
	return nil
}

// create writes the key if nobody has it. ok is false where another was first.
func (c *campaign) create(ctx context.Context) (won tenure, ok bool, err error) {
	asked := c.cfg.Clock.Now()
	lease, err := c.cfg.Store.Grant(ctx, c.cfg.TTL)
	if err != nil {
		return tenure{}, false, fmt.Errorf("grant a lease: %w", err)
	}
	live := c.cfg.Live
	live.V, live.Incarnation, live.Lease = topology.SchemaVersion, c.incarnation, lease
	value, err := topology.Encode(live)
	if err != nil {
		return tenure{}, false, err
	}
	won = tenure{lease: lease, incarnation: c.incarnation, until: asked.Add(c.cfg.TTL)}
	result, err := c.cfg.Store.Txn(ctx,
		[]topology.Compare{{Key: topology.CoordinatorKey, Target: topology.CompareCreateRevision, Want: 0}},
		[]topology.Op{{Key: topology.CoordinatorKey, Value: value, Lease: lease}})
	switch {
	case err == nil && result.Succeeded:
		won.term = Term{Revision: result.Revision}
		return won, true, nil
	case err == nil:
		_ = c.cfg.Store.Revoke(ctx, lease) // it holds nothing and ends by itself
		return tenure{}, false, nil
	default: // Perhaps written. The next round finds an own key and clears it.
		return tenure{}, false, fmt.Errorf("create the key: %w", err)
	}
}

// await returns when the key may have changed. The watch is a hint; the timer is what can be relied on.
func (c *campaign) await(ctx context.Context, revision int64) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := c.cfg.Clock.NewTimer(max(c.cfg.TTL/4, 100*time.Millisecond))
	defer timer.Stop()
	select {
	case <-c.cfg.Store.Watch(ctx, topology.CoordinatorKey, revision+1):
	case <-timer.C():
	case <-ctx.Done():
	}
}
