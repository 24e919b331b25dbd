package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/topology"
)

// ttl is the shortest that etcd grants with its usual election timeout.
const ttl = 2 * time.Second

func (s *suite) putLeased(t *testing.T, name string, lease topology.LeaseID) {
	t.Helper()
	s.txn(t, nil, topology.Op{Key: s.key(name), Value: []byte("leased"), Lease: lease})
}

func (s *suite) pass(d time.Duration) {
	if s.Pass != nil {
		s.Pass(d)
	}
}

func testLeaseEnds(t *testing.T, s *suite) {
	lease := s.grant(t, ttl)
	s.putLeased(t, "a", lease)
	s.putLeased(t, "b", lease)
	if kv, _ := s.get(t, "a"); kv.Lease != lease {
		t.Fatalf("the key's lease is %d, want %d", kv.Lease, lease)
	}
	watch := s.store.Watch(s.ctx, s.prefix, s.revision(t)+1)
	s.pass(ttl + time.Second)
	deleted := map[string]bool{}
	for len(deleted) < 2 {
		for _, change := range s.next(t, watch).Changes {
			deleted[change.KV.Key] = change.Deleted
		}
	}
	if !deleted[s.key("a")] || !deleted[s.key("b")] {
		t.Errorf("the watch saw %v", deleted)
	}
	if _, ok := s.get(t, "a"); ok {
		t.Error("the key outlived its lease")
	}
	if err := s.store.KeepAliveOnce(s.ctx, lease); !errors.Is(err, topology.ErrLeaseNotFound) {
		t.Errorf("renewing an ended lease: %v", err)
	}
	if err := s.store.Revoke(s.ctx, lease); err != nil {
		t.Errorf("revoking an ended lease: %v", err)
	}
}

func testLeaseRenewed(t *testing.T, s *suite) {
	lease := s.grant(t, 60*time.Second)
	s.putLeased(t, "a", lease)
	for range 3 {
		s.pass(40 * time.Second)
		if err := s.store.KeepAliveOnce(s.ctx, lease); err != nil {
			t.Fatalf("renew: %v", err)
		}
	}
	if _, ok := s.get(t, "a"); !ok {
		t.Error("a renewed lease ended")
	}
	if err := s.store.Revoke(s.ctx, lease); err != nil {
		t.Fatal(err)
	}
	if _, ok := s.get(t, "a"); ok {
		t.Error("the key outlived its revoked lease")
	}
}

func testLeaseReplaced(t *testing.T, s *suite) {
	old, next := s.grant(t, 60*time.Second), s.grant(t, 60*time.Second)
	s.putLeased(t, "a", old)
	s.putLeased(t, "a", next)
	s.putLeased(t, "b", old)
	s.put(t, "b", "for ever")
	if err := s.store.Revoke(s.ctx, old); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, ok := s.get(t, name); !ok {
			t.Errorf("key %s went with a lease that it had no more", name)
		}
	}
}

func testLeaseMissing(t *testing.T, s *suite) {
	lease := s.grant(t, 60*time.Second)
	if err := s.store.Revoke(s.ctx, lease); err != nil {
		t.Fatal(err)
	}
	_, err := s.store.Txn(s.ctx, nil, []topology.Op{{Key: s.key("a"), Value: []byte("x"), Lease: lease}})
	if !errors.Is(err, topology.ErrLeaseNotFound) {
		t.Errorf("put under an ended lease: %v", err)
	}
	if _, ok := s.get(t, "a"); ok {
		t.Error("it was put all the same")
	}
	if _, err := s.store.Grant(s.ctx, 0); err == nil {
		t.Error("a lease without a duration was granted")
	}
}
