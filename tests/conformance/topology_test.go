package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/etcdstore"
	"github.com/seedqueue/sq/libs/topology/storetest"
)

// startEtcd starts an etcd in this process; it ends with the test. The address is of its clients' port.
func startEtcd(t *testing.T) (address string) {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.TickMs, cfg.ElectionMs = 10, 100
	anyPort := []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.ListenClientUrls, cfg.ListenPeerUrls = anyPort, anyPort
	cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = anyPort, anyPort
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatalf("start etcd: %v", err)
	}
	t.Cleanup(server.Close)
	select {
	case <-server.Server.ReadyNotify():
	case <-time.After(20 * time.Second):
		t.Fatal("etcd is not ready")
	}
	return server.Clients[0].Addr().String()
}

func openEtcd(t *testing.T, address string) *etcdstore.Store {
	t.Helper()
	store, err := etcdstore.New(etcdstore.Config{Endpoints: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestEtcdStore(t *testing.T) {
	address := startEtcd(t)
	store := openEtcd(t, address)
	runs := 0
	storetest.Run(t, storetest.Home{
		Open: func(*testing.T) (topology.Store, string) {
			runs++
			return store, fmt.Sprintf("/run%d/", runs)
		},
		Compact: func(t *testing.T, _ topology.Store, revision int64) {
			t.Helper()
			client, err := clientv3.New(clientv3.Config{Endpoints: []string{address}, Logger: zap.NewNop()})
			if err != nil {
				t.Fatal(err)
			}
			_, err = client.Compact(t.Context(), revision, clientv3.WithCompactPhysical())
			if err = errors.Join(err, client.Close()); err != nil {
				t.Fatal(err)
			}
		},
	})
}

// TestEtcdUnreachable has an address at which nobody listens, and one at which somebody listens and is silent.
func TestEtcdUnreachable(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	for name, address := range map[string]string{"nobody": "127.0.0.1:1", "silent": silent.Addr().String()} {
		store, err := etcdstore.New(etcdstore.Config{Endpoints: []string{address}, RequestTimeout: 300 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		_, _, _, err = store.Get(context.Background(), topology.ClusterKey)
		if !errors.Is(err, topology.ErrUnavailable) || !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: get: %v", name, err)
		}
		_, err = store.Txn(context.Background(), nil, []topology.Op{{Key: "a", Value: []byte("x")}})
		if !errors.Is(err, topology.ErrUnavailable) || !fault.Is(err, fault.OutcomeUnknown) {
			t.Errorf("%s: txn: %v", name, err)
		}
		if _, err = store.Grant(context.Background(), time.Second); !errors.Is(err, topology.ErrUnavailable) {
			t.Errorf("%s: grant: %v", name, err)
		}
		if err := store.Close(); err != nil {
			t.Errorf("%s: close: %v", name, err)
		}
	}
}

// TestEtcdListPages lists more keys than one page has.
func TestEtcdListPages(t *testing.T) {
	store := openEtcd(t, startEtcd(t))
	const keys = 10_100
	for from := 0; from < keys; from += 100 {
		ops := make([]topology.Op, 100)
		for i := range ops {
			ops[i] = topology.Op{Key: fmt.Sprintf("/many/%06d", from+i), Value: []byte("x")}
		}
		if _, err := store.Txn(t.Context(), nil, ops); err != nil {
			t.Fatal(err)
		}
	}
	kvs, _, err := store.List(t.Context(), "/many/", 0)
	if err != nil || len(kvs) != keys {
		t.Fatalf("list gives %d keys, %v", len(kvs), err)
	}
	for i, kv := range kvs {
		if want := fmt.Sprintf("/many/%06d", i); kv.Key != want {
			t.Fatalf("key %d is %s", i, kv.Key)
		}
	}
}
