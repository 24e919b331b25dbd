package allinone_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/objstore/membucket"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	"github.com/seedqueue/sq/services/allinone"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is what outlives a run: stores and disks.
type rig struct {
	t      *testing.T
	store  *memstore.Store
	bucket *membucket.Bucket
	disks  map[partition.NodeID]vfs.FS
	net    *memnet.Network
}

func newRig(t *testing.T) *rig {
	store := memstore.New(clock.Real())
	t.Cleanup(func() { _ = store.Close() })
	return &rig{t: t, store: store, bucket: membucket.New(clock.Real()), disks: map[partition.NodeID]vfs.FS{}, net: memnet.New()}
}

func (r *rig) disk(id partition.NodeID) (vfs.FS, error) {
	if r.disks[id] == nil {
		r.disks[id] = memfs.New()
	}
	return r.disks[id], nil
}

func (r *rig) make(brokers int) (*allinone.AllInOne, error) {
	cfg := allinone.Defaults()
	cfg.Brokers = brokers
	cfg.CapnpHost, cfg.GRPCHost, cfg.HTTPHost, cfg.AdminHost = "localhost:0", "localhost:0", "localhost:0", "localhost:0"
	return allinone.New(r.t.Context(), cfg, allinone.Deps{
		Clock: clock.Real(), Store: r.store, Bucket: r.bucket, Disk: r.disk, Outside: r.net,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(), Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: "test",
	})
}

// running is SQ that runs.
type running struct {
	*allinone.AllInOne

	rig  *rig
	http *http.Client
	stop func() error
}

func (r *rig) start(brokers int) *running {
	r.t.Helper()
	all, err := r.make(brokers)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- all.Run(ctx) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return r.net.Dial(ctx, addr) }}
	var stopped atomic.Bool
	run := &running{AllInOne: all, rig: r, http: &http.Client{Transport: transport}, stop: func() error {
		if stopped.Swap(true) {
			return nil
		}
		transport.CloseIdleConnections()
		cancel()
		return <-ended
	}}
	r.t.Cleanup(func() {
		if err := run.stop(); err != nil {
			r.t.Errorf("stop: %v", err)
		}
	})
	waiting, cancelWait := context.WithTimeout(ctx, 30*time.Second)
	defer cancelWait()
	if err := all.WaitReady(waiting); err != nil {
		r.t.Fatal(err)
	}
	return run
}

// do calls REST and gives the status and the body.
func (r *running) do(method, path, body string) (int, string) {
	r.rig.t.Helper()
	request, err := http.NewRequestWithContext(r.rig.t.Context(), method, "http://"+r.Addrs().HTTP+path, strings.NewReader(body))
	if err != nil {
		r.rig.t.Fatal(err)
	}
	response, err := r.http.Do(request)
	if err != nil {
		r.rig.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.rig.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// create makes a topic.
func (r *running) create(topic string) {
	r.rig.t.Helper()
	if status, body := r.do(http.MethodPost, "/v1/topics", fmt.Sprintf(`{"topic":%q}`, topic)); status != http.StatusOK {
		r.rig.t.Fatalf("create %s: %d %s", topic, status, body)
	}
}

// publish stores a record, trying again for as long as the answer is that nothing was stored.
func (r *running) publish(topic, text string) {
	r.rig.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		status, body := r.do(http.MethodPost, "/v1/topics/"+topic+":publish", fmt.Sprintf(`{"records":[{"text":%q}],"idempotencyKey":%q}`, text, text))
		if status == http.StatusOK && strings.Contains(body, `"offset"`) {
			return
		}
		if time.Now().After(deadline) {
			r.rig.t.Fatalf("publish %s: %d %s", text, status, body)
		}
	}
}

// holds tells whether a topic has a record.
func (r *running) holds(topic, text string) bool {
	r.rig.t.Helper()
	status, body := r.do(http.MethodGet, "/v1/topics/"+topic+"/records?from=earliest", "")
	return status == http.StatusOK && strings.Contains(body, text)
}

// leader gives the broker that leads a topic's partition 0.
func (r *running) leader(topic string) int64 {
	r.rig.t.Helper()
	status, body := r.do(http.MethodGet, "/v1/topics/"+topic, "")
	var answer struct{ PartitionStates []struct{ Leader string } }
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK || len(answer.PartitionStates) == 0 {
		r.rig.t.Fatalf("describe %s: %d %v %s", topic, status, err, body)
	}
	id, err := strconv.ParseInt(answer.PartitionStates[0].Leader, 10, 64)
	if err != nil {
		r.rig.t.Fatalf("leader of %s: %v in %s", topic, err, body)
	}
	return id
}

// incarnations are those of the brokers, by id.
func (r *running) incarnations() map[int64]int64 {
	r.rig.t.Helper()
	out := map[int64]int64{}
	for _, b := range r.brokers() {
		out[b.GetId()] = b.GetIncarnation()
	}
	return out
}

func (r *running) brokers() []*controlv1.Broker {
	r.rig.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+r.Addrs().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return r.rig.net.Dial(ctx, addr) }))
	if err != nil {
		r.rig.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	list, err := controlv1.NewClusterServiceClient(conn).ListBrokers(r.rig.t.Context(), &controlv1.ListBrokersRequest{})
	if err != nil {
		r.rig.t.Fatal(err)
	}
	return list.GetBrokers()
}

func TestARecordGoesThroughAndSurvivesARestart(t *testing.T) {
	r := newRig(t)
	first := r.start(1)
	first.create("orders")
	first.publish("orders", "hello")
	if !first.holds("orders", "hello") {
		t.Error("the record cannot be read")
	}
	if status, body := first.do(http.MethodGet, "/readyz", ""); status != http.StatusOK {
		t.Errorf("readyz: %d %s", status, body)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	second := r.start(1)
	if !second.holds("orders", "hello") {
		t.Error("the record did not survive")
	}
	second.publish("orders", "again")
}

// Two in one process share nothing.
func TestTwoAtOnce(t *testing.T) {
	a, b := newRig(t).start(1), newRig(t).start(3)
	a.create("orders")
	b.create("orders")
	a.publish("orders", "of a")
	b.publish("orders", "of b")
	if a.holds("orders", "of b") || b.holds("orders", "of a") || !a.holds("orders", "of a") {
		t.Error("records went astray")
	}
	if got := b.brokers(); len(got) != 3 {
		t.Errorf("brokers: %v", got)
	}
}

func TestMetricsOfAllServices(t *testing.T) {
	r := newRig(t).start(2)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+r.Addrs().Admin+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := r.http.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%d %v %s", response.StatusCode, err, body)
	}
	for _, want := range []string{`instance="broker-1"`, `instance="broker-2"`, `sq_coordinator_active_state{instance="coordinator"} 1`, `instance="gateway"`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("no %s in the metrics", want)
		}
	}
}

// A broker whose disk fails a sync begins its next life by itself, and only that one; what it acknowledged before is there.
func TestPoisonedDiskStartsABrokerAnew(t *testing.T) {
	for _, brokers := range []int{1, 3} {
		t.Run(strconv.Itoa(brokers), func(t *testing.T) { poison(t, brokers) })
	}
}

func poison(t *testing.T, brokers int) {
	r := newRig(t)
	disks := map[int64]*faultfs.FS{}
	for id := range brokers {
		disk := faultfs.New(memfs.New(), clock.Real())
		r.disks[partition.NodeID(id+1)], disks[int64(id+1)] = disk, disk
	}
	run := r.start(brokers)
	run.create("orders")
	run.publish("orders", "before")
	leader := run.leader("orders")
	broken := disks[leader].Add(faultfs.Rule{Ops: faultfs.Sync, Path: "*.log", Count: 1, Err: errors.New("input/output error")})
	deadline := time.Now().Add(30 * time.Second)
	for run.incarnations()[leader] < 2 { // a quorum may go on without that disk for a while
		_, _ = run.do(http.MethodPost, "/v1/topics/orders:publish", `{"records":[{"text":"perhaps"}]}`)
		if time.Now().After(deadline) {
			t.Fatalf("broker %d goes on with its disk: %v", leader, run.incarnations())
		}
	}
	broken.Remove()
	run.publish("orders", "after")
	if !run.holds("orders", "before") || !run.holds("orders", "after") {
		t.Error("acknowledged records are gone")
	}
	for id, incarnation := range run.incarnations() {
		if id != leader && incarnation != 1 {
			t.Errorf("broker %d is in incarnation %d although its disk is sound", id, incarnation)
		}
	}
}

func TestCannotStart(t *testing.T) {
	r := newRig(t)
	if _, err := r.make(17); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "brokers: 17") {
		t.Errorf("17 brokers: %v", err)
	}
	// What was opened before the error is closed again: the directory can be had.
	taken, err := r.net.Listen(t.Context(), "localhost:7001")
	if err != nil {
		t.Fatal(err)
	}
	cfg := allinone.Defaults()
	cfg.HTTPHost = "localhost:7001"
	_, err = allinone.New(t.Context(), cfg, allinone.Deps{
		Clock: clock.Real(), Store: r.store, Bucket: r.bucket, Disk: r.disk, Outside: r.net, Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(), Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: "test",
	})
	if err == nil || !strings.Contains(err.Error(), "http-host") {
		t.Errorf("a taken port: %v", err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	run := r.start(1)
	run.create("orders")
	run.publish("orders", "hello")
}

// A cluster that the store does not belong to ends the run.
func TestWrongCluster(t *testing.T) {
	r := newRig(t)
	if err := r.start(1).stop(); err != nil {
		t.Fatal(err)
	}
	cfg := allinone.Defaults()
	cfg.ClusterID = "00000000-0000-4000-8000-000000000001"
	cfg.CapnpHost, cfg.GRPCHost, cfg.HTTPHost, cfg.AdminHost = "localhost:0", "localhost:0", "localhost:0", ""
	all, err := allinone.New(t.Context(), cfg, allinone.Deps{
		Clock: clock.Real(), Store: r.store, Bucket: r.bucket, Outside: r.net, Log: slog.New(slog.DiscardHandler),
		Disk:    func(partition.NodeID) (vfs.FS, error) { return memfs.New(), nil },
		Metrics: prometheus.NewRegistry(), Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: "test",
	})
	if err == nil {
		err = all.Run(t.Context())
	}
	if !fault.Is(err, fault.WrongCluster) {
		t.Errorf("%v", err)
	}
	if _, ok, _, _ := r.store.Get(t.Context(), topology.ClusterKey); !ok {
		t.Error("the identity is gone")
	}
}
