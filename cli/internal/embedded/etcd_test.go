package embedded_test

import (
	"io"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/cli/internal/embedded"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/etcdstore"
)

// TestMain finds goroutines that are left. fasthttp, under the embedded S3 server, sleeps out its last ten seconds.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

func TestEtcdKeepsItsData(t *testing.T) {
	dir := t.TempDir()
	for _, want := range []bool{false, true} {
		start := time.Now()
		e, err := embedded.StartEtcd(t.Context(), dir, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("ready in %v", time.Since(start))
		store := etcdstore.Wrap(e.Client(), 0)
		kv, ok, _, err := store.Get(t.Context(), "/sq/x")
		if err != nil || ok != want || (ok && string(kv.Value) != "1") {
			t.Errorf("get: %q %v %v", kv.Value, ok, err)
		}
		if _, err := store.Txn(t.Context(), nil, []topology.Op{{Key: "/sq/x", Value: []byte("1")}}); err != nil {
			t.Error(err)
		}
		lease, err := store.Grant(t.Context(), time.Minute)
		if err != nil {
			t.Error(err)
		}
		if err := store.KeepAliveOnce(t.Context(), lease); err != nil {
			t.Error(err)
		}
		start = time.Now()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		e.Close()
		t.Logf("closed in %v", time.Since(start))
	}
}
