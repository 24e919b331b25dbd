package node_test

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/transport/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ports() node.Ports {
	return node.Ports{Capnp: &node.Port{Host: "host:1"}, HTTP: &node.Port{Host: "host:2", Advertise: "public:80"}}
}

func TestCheckNamesWhatIsWrong(t *testing.T) {
	for text, spoil := range map[string]func(*node.Config, *node.Ports){
		"":                                    func(*node.Config, *node.Ports) {},
		`capnp-host: "" is not host:port`:     func(_ *node.Config, p *node.Ports) { p.Capnp.Host = "" },
		`grpc-host: "x" is not host:port`:     func(_ *node.Config, p *node.Ports) { p.GRPC = &node.Port{Host: "x"} },
		`admin-host: "x" is not host:port`:    func(c *node.Config, p *node.Ports) { c.AdminHost = "x"; p.Admin = c.Admin() },
		`advertise-http: "x" is not host:p`:   func(_ *node.Config, p *node.Ports) { p.HTTP.Advertise = "x" },
		`cluster-id: "x" is not a UUID`:       func(c *node.Config, _ *node.Ports) { c.ClusterID = "x" },
		"lease-ttl: 999ms is outside 1s to":   func(c *node.Config, _ *node.Ports) { c.LeaseTTL = 999 * time.Millisecond },
		"lease-ttl: 1m1s is outside 1s to 1m": func(c *node.Config, _ *node.Ports) { c.LeaseTTL = 61 * time.Second },
	} {
		cfg, p := node.Defaults(""), ports()
		spoil(&cfg, &p)
		err := cfg.Check(p, time.Second)
		if text == "" && err != nil || text != "" && (!fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), text)) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
}

// doc.go 1.
func TestListensOnAllPortsOrOnNone(t *testing.T) {
	network := memnet.New().At("host")
	taken, err := network.Listen(t.Context(), "host:2")
	if err != nil {
		t.Fatal(err)
	}
	p := ports()
	if err := p.Listen(t.Context(), network); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "http-host: listen on host:2") {
		t.Fatalf("got %v", err)
	}
	_ = taken.Close()
	p = ports()
	if err := p.Listen(t.Context(), network); err != nil {
		t.Fatalf("the port before the taken one was kept: %v", err)
	}
	if diff := cmp.Diff(node.Addrs{Capnp: "host:1", HTTP: "host:2"}, p.Addrs()); diff != "" {
		t.Error(diff)
	}
	p.Close()
	p.Close()
}

// wildcard is a network whose listeners say that they listen everywhere.
type wildcard struct{ net.Listener }

func (wildcard) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv6unspecified, Port: 7} }

// doc.go 2.
func TestTellsWhereItIsReached(t *testing.T) {
	p := ports()
	p.Capnp.Listener = wildcard{}
	d := node.Deps{Hostname: "box", Version: "v1"}
	want := topology.Live{ID: "box:7", Zone: "a", Software: "v1", Capnp: "box:7", HTTP: "public:80"}
	if diff := cmp.Diff(want, d.Live("", node.Config{Zone: "a"}, p)); diff != "" {
		t.Error(diff)
	}
	if live := d.Live("me", node.Config{}, p); live.ID != "me" {
		t.Errorf("is called %q", live.ID)
	}
	if at := p.Reached(""); at.Capnp != "[::]:7" {
		t.Errorf("without a host name: %q", at.Capnp)
	}
}

// silent is a store that does not answer the first calls, and whose first lease ends before it is used.
type silent struct {
	topology.Store

	calls  int
	leased bool
}

func (s *silent) Txn(ctx context.Context, when []topology.Compare, ops []topology.Op) (topology.TxnResult, error) {
	if leased := ops[0].Lease != 0; leased && !s.leased {
		s.leased = true
		return topology.TxnResult{}, topology.ErrLeaseNotFound
	}
	return s.Store.Txn(ctx, when, ops)
}

func (s *silent) Get(ctx context.Context, key string) (topology.KV, bool, int64, error) {
	if s.calls--; s.calls >= 0 {
		return topology.KV{}, false, 0, topology.ErrUnavailable
	}
	return s.Store.Get(ctx, key)
}

// doc.go 3.
func TestJoinWaitsForEtcdAndSaysSoOnce(t *testing.T) {
	var log strings.Builder
	store := memstore.New(clock.Real())
	defer store.Close()
	d := node.Deps{
		Clock: clock.Real(), Store: &silent{Store: store, calls: 2}, Log: slog.New(slog.NewTextHandler(&log, nil)), Rand: rand.Reader,
	}
	made, err := d.Join(t.Context(), node.Config{})
	if err != nil || made.ID.IsZero() {
		t.Fatalf("%v, %v", made, err)
	}
	if n := strings.Count(log.String(), "etcd does not answer"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &log)
	}
	found, err := d.Join(t.Context(), node.Config{ClusterID: made.ID.String()})
	if err != nil || found.ID != made.ID {
		t.Errorf("%v, %v", found, err)
	}
	if _, err := d.Join(t.Context(), node.Config{ClusterID: d.NewUUID().String()}); !fault.Is(err, fault.WrongCluster) {
		t.Errorf("another cluster: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if none, err := d.Join(ended, node.Config{}); err != nil || !none.ID.IsZero() {
		t.Errorf("told to stop: %v, %v", none, err)
	}
}

func TestStaysKnownUntilItEnds(t *testing.T) {
	store := memstore.New(clock.Real())
	defer store.Close()
	d := node.Deps{Clock: clock.Real(), Store: &silent{Store: store}, Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	key := topology.GatewayLiveKey("g")
	var told []bool
	err := d.Stay(ctx, node.Config{LeaseTTL: time.Minute}, key, topology.Live{ID: "g"}, func(known bool) {
		told = append(told, known)
		if _, ok, _, err := store.Get(t.Context(), key); !ok || err != nil {
			t.Errorf("key: %v, %v", ok, err)
		}
		cancel()
	})
	if diff := cmp.Diff([]bool{true, false}, told); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, ok, _, _ := store.Get(t.Context(), key); ok {
		t.Error("still known")
	}
}

// drained is a frame server that has something in flight when it is told to stop.
type drained struct{ shut chan struct{} }

func (d drained) Serve(ctx context.Context, _ net.Listener) error {
	<-d.shut
	return ctx.Err() // whether it was cut off
}

func (d drained) Shutdown(context.Context) error {
	close(d.shut)
	return nil
}

// doc.go 4.
func TestServersDrain(t *testing.T) {
	d := node.Deps{Clock: clock.Real(), Log: slog.New(slog.DiscardHandler)}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.ServeFrames(ctx, drained{shut: make(chan struct{})}, nil); err != nil {
		t.Errorf("frames: %v", err)
	}
	listener, err := memnet.New().At("host").Listen(t.Context(), "host:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.ServeGRPC(ctx, grpc.NewServer(), listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		t.Errorf("gRPC: %v", err)
	}
	_ = listener.Close()
	if err := d.ServeGRPC(t.Context(), grpc.NewServer(), listener); err == nil {
		t.Error("a listener that broke is no error")
	}
}
