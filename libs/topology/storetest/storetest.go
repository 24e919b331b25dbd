package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/topology"
)

// patience bounds every wait of the suite: on its end the test has failed.
const patience = 20 * time.Second

// Home is a store to test.
type Home struct {
	// Open gives a store and a prefix under which it holds nothing. The suite does not close it.
	Open func(t *testing.T) (store topology.Store, prefix string)
	// Pass lets time pass for leases; nil where it passes by itself.
	Pass func(d time.Duration)
	// Compact forgets the history up to a revision.
	Compact func(t *testing.T, store topology.Store, revision int64)
}

// Run runs the suite.
func Run(t *testing.T, home Home) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, *suite){
		"GetPut": testGetPut, "Revisions": testRevisions, "Compares": testCompares, "TxnIsAtomic": testTxnIsAtomic, "TxnRefused": testTxnRefused,
		"List": testList, "Watch": testWatch, "WatchPast": testWatchPast, "WatchCompacted": testWatchCompacted, "WatchEnds": testWatchEnds,
		"LeaseEnds": testLeaseEnds, "LeaseRenewed": testLeaseRenewed, "LeaseReplaced": testLeaseReplaced, "LeaseMissing": testLeaseMissing,
		"Canceled": testCanceled,
	} {
		t.Run(name, func(t *testing.T) {
			store, prefix := home.Open(t)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			t.Cleanup(cancel)
			test(t, &suite{Home: home, store: store, prefix: prefix, ctx: ctx})
		})
	}
}

type suite struct {
	Home

	store  topology.Store
	prefix string
	ctx    context.Context //nolint:containedctx // a test's.
}

func (s *suite) key(name string) string { return s.prefix + name }

func (s *suite) txn(t *testing.T, compares []topology.Compare, ops ...topology.Op) topology.TxnResult {
	t.Helper()
	result, err := s.store.Txn(s.ctx, compares, ops)
	if err != nil {
		t.Fatalf("txn: %v", err)
	}
	return result
}

func (s *suite) put(t *testing.T, name, value string) int64 {
	t.Helper()
	return s.txn(t, nil, topology.Op{Key: s.key(name), Value: []byte(value)}).Revision
}

func (s *suite) remove(t *testing.T, name string) int64 {
	t.Helper()
	return s.txn(t, nil, topology.Op{Key: s.key(name), Delete: true}).Revision
}

func (s *suite) get(t *testing.T, name string) (topology.KV, bool) {
	t.Helper()
	kv, ok, _, err := s.store.Get(s.ctx, s.key(name))
	if err != nil {
		t.Fatalf("get %s: %v", name, err)
	}
	return kv, ok
}

func (s *suite) revision(t *testing.T) int64 {
	t.Helper()
	_, _, revision, err := s.store.Get(s.ctx, s.key("any"))
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

func (s *suite) grant(t *testing.T, ttl time.Duration) topology.LeaseID {
	t.Helper()
	id, err := s.store.Grant(s.ctx, ttl)
	if err != nil {
		t.Fatalf("grant: %v", err)
	}
	return id
}

// next takes the next events of a watch.
func (s *suite) next(t *testing.T, watch <-chan topology.Events) topology.Events {
	t.Helper()
	select {
	case events, ok := <-watch:
		if !ok {
			t.Fatal("watch closed")
		}
		return events
	case <-s.ctx.Done():
		t.Fatal("no event came")
		return topology.Events{}
	}
}

func testGetPut(t *testing.T, s *suite) {
	if kv, ok := s.get(t, "a"); ok {
		t.Fatalf("a missing key is %+v", kv)
	}
	for _, value := range []string{"", "one", "\x00\xff"} {
		s.put(t, "a", value)
		if kv, ok := s.get(t, "a"); !ok || string(kv.Value) != value || kv.Key != s.key("a") {
			t.Errorf("put %q gives %+v", value, kv)
		}
	}
	s.remove(t, "a")
	if _, ok := s.get(t, "a"); ok {
		t.Error("a deleted key is there")
	}
}

func testRevisions(t *testing.T, s *suite) {
	first := s.put(t, "a", "1")
	second := s.put(t, "a", "2")
	if second <= first {
		t.Fatalf("revision %d after %d", second, first)
	}
	want := topology.KV{Key: s.key("a"), Value: []byte("2"), CreateRevision: first, ModRevision: second, Version: 2}
	if kv, _ := s.get(t, "a"); !cmp.Equal(want, kv) {
		t.Errorf("key after two puts (-want +got):\n%s", cmp.Diff(want, kv))
	}
	s.remove(t, "a")
	if again := s.remove(t, "a"); again != s.revision(t) {
		t.Errorf("deleting a missing key gives revision %d", again)
	}
	third := s.put(t, "a", "3")
	want = topology.KV{Key: s.key("a"), Value: []byte("3"), CreateRevision: third, ModRevision: third, Version: 1}
	if kv, _ := s.get(t, "a"); !cmp.Equal(want, kv) {
		t.Errorf("key made anew (-want +got):\n%s", cmp.Diff(want, kv))
	}
}

func testCompares(t *testing.T, s *suite) {
	first := s.put(t, "a", "1")
	second := s.put(t, "a", "2")
	for name, c := range map[string]struct {
		compare topology.Compare
		want    bool
	}{
		"mod":             {topology.Compare{Target: topology.CompareModRevision, Want: second}, true},
		"mod, old":        {topology.Compare{Target: topology.CompareModRevision, Want: first}, false},
		"mod, missing":    {topology.Compare{Target: topology.CompareModRevision}, false},
		"create":          {topology.Compare{Target: topology.CompareCreateRevision, Want: first}, true},
		"create, other":   {topology.Compare{Target: topology.CompareCreateRevision, Want: second}, false},
		"version":         {topology.Compare{Target: topology.CompareVersion, Want: 2}, true},
		"version, lower":  {topology.Compare{Target: topology.CompareVersion, Want: 1}, false},
		"version, higher": {topology.Compare{Target: topology.CompareVersion, Want: 3}, false},
	} {
		c.compare.Key = s.key("a")
		missing := topology.Compare{Key: s.key("missing")}
		result := s.txn(t, []topology.Compare{missing, c.compare}, topology.Op{Key: s.key("b"), Value: []byte(name)})
		if kv, _ := s.get(t, "b"); result.Succeeded != c.want || (string(kv.Value) == name) != c.want {
			t.Errorf("%s: succeeded %v, value %q, want %v", name, result.Succeeded, kv.Value, c.want)
		}
		if result.Revision != s.revision(t) {
			t.Errorf("%s: revision %d, the store's is %d", name, result.Revision, s.revision(t))
		}
	}
}

func testTxnIsAtomic(t *testing.T, s *suite) {
	s.put(t, "gone", "x")
	result := s.txn(t, nil,
		topology.Op{Key: s.key("a"), Value: []byte("1")}, topology.Op{Key: s.key("b"), Value: []byte("2")}, topology.Op{Key: s.key("gone"), Delete: true})
	kvs, revision, err := s.store.List(s.ctx, s.prefix, 0)
	if err != nil || revision != result.Revision {
		t.Fatalf("list at %d, %v, want %d", revision, err, result.Revision)
	}
	if len(kvs) != 2 || kvs[0].ModRevision != result.Revision || kvs[1].ModRevision != result.Revision {
		t.Errorf("the keys are %+v, want both of revision %d", kvs, result.Revision)
	}
}

func testTxnRefused(t *testing.T, s *suite) {
	many := make([]topology.Op, 129)
	for i := range many {
		many[i] = topology.Op{Key: s.key(fmt.Sprint(i)), Value: []byte("x")}
	}
	for name, ops := range map[string][]topology.Op{"129 ops": many, "a key twice": {many[0], many[0]}, "an empty key": {{}}} {
		_, err := s.store.Txn(s.ctx, nil, ops)
		if err == nil || errors.Is(err, topology.ErrUnavailable) {
			t.Errorf("%s: error %v, want a refusal", name, err)
		}
	}
	if _, err := s.store.Txn(s.ctx, nil, many[:128]); err != nil {
		t.Errorf("128 ops: %v", err)
	}
	if _, ok := s.get(t, "128"); ok {
		t.Error("a refused transaction was applied")
	}
}

func testList(t *testing.T, s *suite) {
	s.put(t, "p/b", "1")
	second := s.put(t, "p/a", "2")
	s.put(t, "q", "3")
	last := s.put(t, "p/c", "4")
	names := func(minModRevision int64) []string {
		kvs, revision, err := s.store.List(s.ctx, s.key("p/"), minModRevision)
		if err != nil || revision != last {
			t.Fatalf("list at revision %d, %v, want %d", revision, err, last)
		}
		var got []string
		for _, kv := range kvs {
			got = append(got, kv.Key+"="+string(kv.Value))
		}
		return got
	}
	a, b, c := s.key("p/a=2"), s.key("p/b=1"), s.key("p/c=4")
	for minModRevision, want := range map[int64][]string{0: {a, b, c}, second: {a, c}, second + 1: {c}, last + 1: nil} {
		if diff := cmp.Diff(want, names(minModRevision)); diff != "" {
			t.Errorf("list from revision %d (-want +got):\n%s", minModRevision, diff)
		}
	}
}

func testCanceled(t *testing.T, s *suite) {
	ctx, cancel := context.WithCancel(s.ctx)
	cancel()
	_, _, _, err := s.store.Get(ctx, s.key("a"))
	if !errors.Is(err, topology.ErrUnavailable) {
		t.Errorf("get after its context's end: %v", err)
	}
	if _, err = s.store.Txn(ctx, nil, []topology.Op{{Key: s.key("a")}}); !errors.Is(err, topology.ErrUnavailable) {
		t.Errorf("txn after its context's end: %v", err)
	}
	if err = s.store.KeepAliveOnce(ctx, 1); !errors.Is(err, topology.ErrUnavailable) {
		t.Errorf("renewal after its context's end: %v", err)
	}
}
