package memstore

import (
	"context"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/topology"
)

// historyMax is how many revisions are kept for watches that start in the past; older ones are compacted.
const historyMax = 1 << 16

// opsMax is etcd's default limit of operations in a transaction.
const opsMax = 128

// Store is an in-memory topology.Store.
type Store struct {
	clock clock.Clock
	stop  context.CancelFunc
	done  context.Context //nolint:containedctx // the store's own life, not a call's.
	tasks sync.WaitGroup
	wake  chan struct{} // the next lease to end may have changed

	mu struct {
		sync.Mutex

		keys      map[string]topology.KV
		revision  int64
		history   []topology.Events // of revisions after compacted, in order
		compacted int64
		leases    map[topology.LeaseID]*lease
		nextLease topology.LeaseID
		watches   map[*watch]struct{}
		held      bool
		rule      func(Call) Fault
		closed    bool
	}
}

var _ topology.Store = (*Store)(nil)

// New makes an empty store at revision 1. The caller closes it.
func New(clk clock.Clock) *Store {
	done, stop := context.WithCancel(context.Background())
	s := &Store{clock: clk, stop: stop, done: done, wake: make(chan struct{}, 1)}
	s.mu.keys = map[string]topology.KV{}
	s.mu.revision = 1
	s.mu.leases = map[topology.LeaseID]*lease{}
	s.mu.watches = map[*watch]struct{}{}
	s.tasks.Go(s.expireLoop)
	return s
}

// Get implements topology.Store.
func (s *Store) Get(ctx context.Context, key string) (topology.KV, bool, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(ctx, Call{Method: Get, Key: key}); err != nil {
		return topology.KV{}, false, 0, err
	}
	kv, ok := s.mu.keys[key]
	return clone(kv), ok, s.mu.revision, nil
}

// List implements topology.Store.
func (s *Store) List(ctx context.Context, prefix string, minModRevision int64) ([]topology.KV, int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(ctx, Call{Method: List, Key: prefix}); err != nil {
		return nil, 0, err
	}
	var kvs []topology.KV
	for key, kv := range s.mu.keys {
		if strings.HasPrefix(key, prefix) && kv.ModRevision >= minModRevision {
			kvs = append(kvs, clone(kv))
		}
	}
	sort.Slice(kvs, func(i, j int) bool { return kvs[i].Key < kvs[j].Key })
	return kvs, s.mu.revision, nil
}

// Close implements topology.Store.
func (s *Store) Close() error {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	s.stop()
	s.tasks.Wait()
	return nil
}

// enter begins a call: it honours ctx, ends leases that are due and applies the fault rule. A fault that strikes only after the call is
// Txn's own business.
func (s *Store) enter(ctx context.Context, call Call) error {
	if err := ctx.Err(); err != nil {
		return topology.Unavailable(call.String(), err)
	}
	if s.mu.closed {
		return topology.Unavailable(call.String(), errClosed)
	}
	s.expire(s.clock.Now())
	if s.mu.rule == nil || call.Method == Txn {
		return nil
	}
	if s.mu.rule(call) != None {
		return topology.Unavailable(call.String(), errInjected)
	}
	return nil
}

// commit gives changes the next revision and shows them to watches. Callers have changed s.mu.keys.
func (s *Store) commit(changes []topology.Change) {
	s.mu.history = append(s.mu.history, topology.Events{Revision: s.mu.revision, Changes: changes})
	if len(s.mu.history) > historyMax {
		s.compact(s.mu.history[historyMax/2].Revision)
	}
	s.signal()
}

func (s *Store) put(revision int64, op topology.Op) topology.Change {
	old, exists := s.mu.keys[op.Key]
	kv := topology.KV{
		Key: op.Key, Value: append([]byte(nil), op.Value...), CreateRevision: revision, ModRevision: revision, Version: 1, Lease: op.Lease,
	}
	if exists {
		kv.CreateRevision, kv.Version = old.CreateRevision, old.Version+1
		s.detach(old)
	}
	if held := s.mu.leases[op.Lease]; held != nil {
		held.keys[op.Key] = struct{}{}
	}
	s.mu.keys[op.Key] = kv
	return topology.Change{KV: clone(kv)}
}

// remove deletes a key; false where it is missing.
func (s *Store) remove(revision int64, key string) (topology.Change, bool) {
	old, ok := s.mu.keys[key]
	if !ok {
		return topology.Change{}, false
	}
	s.detach(old)
	delete(s.mu.keys, key)
	return topology.Change{KV: topology.KV{Key: key, ModRevision: revision}, Deleted: true}, true
}

func (s *Store) detach(kv topology.KV) {
	if held := s.mu.leases[kv.Lease]; held != nil {
		delete(held.keys, kv.Key)
	}
}

// clone keeps the store's bytes from its callers.
func clone(kv topology.KV) topology.KV {
	kv.Value = append([]byte(nil), kv.Value...)
	return kv
}

// due is the earliest end of a lease; false where there is none.
func (s *Store) due() (time.Time, bool) {
	var first time.Time
	for _, held := range s.mu.leases {
		if first.IsZero() || held.end.Before(first) {
			first = held.end
		}
	}
	return first, !first.IsZero()
}
