package memstore

import (
	"context"
	"fmt"

	"github.com/seedqueue/sq/libs/topology"
)

// Txn implements topology.Store.
func (s *Store) Txn(ctx context.Context, compares []topology.Compare, ops []topology.Op) (topology.TxnResult, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := Call{Method: Txn}
	if len(ops) > 0 {
		call.Key = ops[0].Key
	}
	if err := s.enter(ctx, call); err != nil {
		return topology.TxnResult{}, err
	}
	if err := s.check(ops); err != nil {
		return topology.TxnResult{}, err
	}
	struck := None
	if s.mu.rule != nil {
		struck = s.mu.rule(call)
	}
	if struck == Unavailable {
		return topology.TxnResult{}, topology.Unknown(call.String(), errInjected)
	}
	result := s.apply(compares, ops)
	if struck == Ambiguous {
		return topology.TxnResult{}, topology.Unknown(call.String(), errInjected)
	}
	return result, nil
}

// check refuses what etcd refuses.
func (s *Store) check(ops []topology.Op) error {
	if len(ops) > opsMax {
		return fmt.Errorf("write transaction: %d operations, %d at most", len(ops), opsMax)
	}
	seen := make(map[string]struct{}, len(ops))
	for _, op := range ops {
		if op.Key == "" {
			return fmt.Errorf("write transaction: empty key")
		}
		if _, twice := seen[op.Key]; twice {
			return fmt.Errorf("write transaction: key %s twice", op.Key)
		}
		seen[op.Key] = struct{}{}
		if op.Lease != 0 && s.mu.leases[op.Lease] == nil {
			return fmt.Errorf("write transaction: lease %d: %w", op.Lease, topology.ErrLeaseNotFound)
		}
	}
	return nil
}

func (s *Store) apply(compares []topology.Compare, ops []topology.Op) topology.TxnResult {
	for _, compare := range compares {
		kv := s.mu.keys[compare.Key]
		have := kv.ModRevision
		switch compare.Target {
		case topology.CompareCreateRevision:
			have = kv.CreateRevision
		case topology.CompareVersion:
			have = kv.Version
		case topology.CompareModRevision:
		}
		if have != compare.Want {
			return topology.TxnResult{Revision: s.mu.revision}
		}
	}
	next := s.mu.revision + 1
	var changes []topology.Change
	for _, op := range ops {
		if !op.Delete {
			changes = append(changes, s.put(next, op))
		} else if change, ok := s.remove(next, op.Key); ok {
			changes = append(changes, change)
		}
	}
	if len(changes) > 0 {
		s.mu.revision = next
		s.commit(changes)
	}
	return topology.TxnResult{Succeeded: true, Revision: s.mu.revision}
}
