package memstore

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/seedqueue/sq/libs/topology"
)

type lease struct {
	ttl  time.Duration
	end  time.Time
	keys map[string]struct{}
}

// Grant implements topology.Store. The ttl is rounded up to whole seconds, as etcd does.
func (s *Store) Grant(ctx context.Context, ttl time.Duration) (topology.LeaseID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(ctx, Call{Method: Grant}); err != nil {
		return 0, err
	}
	if ttl <= 0 {
		return 0, fmt.Errorf("grant lease: ttl %v is not positive", ttl)
	}
	ttl = (ttl + time.Second - 1).Truncate(time.Second)
	s.mu.nextLease++
	s.mu.leases[s.mu.nextLease] = &lease{ttl: ttl, end: s.clock.Now().Add(ttl), keys: map[string]struct{}{}}
	s.reschedule()
	return s.mu.nextLease, nil
}

// KeepAliveOnce implements topology.Store.
func (s *Store) KeepAliveOnce(ctx context.Context, id topology.LeaseID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(ctx, Call{Method: KeepAlive}); err != nil {
		return err
	}
	held := s.mu.leases[id]
	if held == nil {
		return fmt.Errorf("renew lease %d: %w", id, topology.ErrLeaseNotFound)
	}
	held.end = s.clock.Now().Add(held.ttl)
	return nil
}

// Revoke implements topology.Store.
func (s *Store) Revoke(ctx context.Context, id topology.LeaseID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.enter(ctx, Call{Method: Revoke}); err != nil {
		return err
	}
	s.endLease(id)
	return nil
}

// endLease deletes a lease and its keys in one revision.
func (s *Store) endLease(id topology.LeaseID) {
	held := s.mu.leases[id]
	if held == nil {
		return
	}
	keys := make([]string, 0, len(held.keys))
	for key := range held.keys {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	delete(s.mu.leases, id)
	if len(keys) == 0 {
		return
	}
	s.mu.revision++
	changes := make([]topology.Change, 0, len(keys))
	for _, key := range keys {
		change, _ := s.remove(s.mu.revision, key)
		changes = append(changes, change)
	}
	s.commit(changes)
}

// expire ends the leases that are due.
func (s *Store) expire(now time.Time) {
	var ended []topology.LeaseID
	for id, held := range s.mu.leases {
		if !held.end.After(now) {
			ended = append(ended, id)
		}
	}
	sort.Slice(ended, func(i, j int) bool { return ended[i] < ended[j] })
	for _, id := range ended {
		s.endLease(id)
	}
}

func (s *Store) reschedule() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// expireLoop ends leases when no call does.
func (s *Store) expireLoop() {
	for {
		s.mu.Lock()
		now := s.clock.Now()
		s.expire(now)
		end, ok := s.due()
		s.mu.Unlock()
		if !ok {
			select {
			case <-s.wake:
				continue
			case <-s.done.Done():
				return
			}
		}
		timer := s.clock.NewTimer(end.Sub(now))
		if !s.clock.Now().Before(end) { // a test's clock may have moved since now
			timer.Stop()
			continue
		}
		select {
		case <-timer.C():
		case <-s.wake:
			timer.Stop()
		case <-s.done.Done():
			timer.Stop()
			return
		}
	}
}
