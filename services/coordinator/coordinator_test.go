package coordinator_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/transport/memnet"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/coordinator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a store and a network in memory.
type rig struct {
	t     *testing.T
	store *memstore.Store
	net   *memnet.Network
}

func newRig(t *testing.T) *rig {
	store := memstore.New(clock.Real())
	t.Cleanup(func() { _ = store.Close() })
	return &rig{t: t, store: store, net: memnet.New()}
}

// running is a coordinator that runs.
type running struct {
	*coordinator.Coordinator
	coordinatorv1.CoordinatorServiceClient

	stop func() error
}

func (r *rig) start(change func(*coordinator.Config)) *running {
	r.t.Helper()
	cfg := coordinator.Defaults()
	cfg.GRPCHost, cfg.HTTPHost, cfg.AdminHost, cfg.LeaseTTL = "localhost:0", "localhost:0", "localhost:0", time.Minute
	if change != nil {
		change(&cfg)
	}
	c, err := coordinator.New(r.t.Context(), cfg, coordinator.Deps{
		Clock: clock.Real(), Network: r.net, Store: r.store, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: "test",
	})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(r.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	conn, err := grpc.NewClient("passthrough:///"+c.Addrs().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return r.net.Dial(ctx, addr) }))
	if err != nil {
		r.t.Fatal(err)
	}
	stopped := false
	run := &running{Coordinator: c, CoordinatorServiceClient: coordinatorv1.NewCoordinatorServiceClient(conn), stop: func() error {
		if stopped {
			return nil
		}
		stopped = true
		_ = conn.Close()
		cancel()
		return <-ended
	}}
	r.t.Cleanup(func() {
		if err := run.stop(); err != nil {
			r.t.Errorf("stop: %v", err)
		}
	})
	return run
}

// await returns when the topology is as wanted.
func (r *rig) await(what string, wanted func(*topology.View) bool) *topology.View {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	f := topology.NewFollower(r.store, slog.New(slog.DiscardHandler), clock.Real())
	done := make(chan struct{})
	go func() { _ = f.Run(ctx); close(done) }()
	v, err := f.WaitFor(ctx, wanted)
	cancel()
	<-done
	if err != nil {
		r.t.Fatalf("wait for %s: %v", what, err)
	}
	return v
}

func (r *rig) broker(id string) {
	r.t.Helper()
	claim, err := topology.ClaimBroker(r.t.Context(), r.store, 1, "", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := topology.Register(r.t.Context(), r.store, topology.RegisterParams{
		Key: topology.BrokerLiveKey(1), Live: topology.Live{ID: id, Node: 1, Incarnation: claim.Incarnation}, TTL: time.Hour,
	}); err != nil {
		r.t.Fatal(err)
	}
}

func led(v *topology.View) bool { return v.Coordinator != nil && len(v.Namespaces) == 1 }

// create makes a topic as soon as the coordinator sees the broker.
func (r *rig) create(c *running, in *controlv1.CreateTopicRequest) *controlv1.Topic {
	r.t.Helper()
	for {
		topic, err := c.CreateTopic(r.t.Context(), in)
		if faultwire.Reason(err) == "UNAVAILABLE" && strings.Contains(err.Error(), "no broker is live") {
			continue
		}
		if err != nil {
			r.t.Fatal(err)
		}
		return topic
	}
}

func TestServesTheCatalog(t *testing.T) {
	r := newRig(t)
	c := r.start(nil)
	r.broker("1")
	r.await("a coordinator", led)
	ctx := t.Context()
	made := r.create(c, &controlv1.CreateTopicRequest{RequestId: "r", Topic: &controlv1.Topic{
		Topic: "orders", Partitions: 2, Retention: &controlv1.Retention{Time: durationpb.New(time.Hour)},
	}})
	if made.GetId() == "" || made.GetEtag() == "" || len(made.GetPartitionStates()) != 2 || made.GetPartitionStates()[1].GetLeader() != 1 {
		t.Errorf("created %v", made)
	}
	got, err := c.GetTopic(ctx, &controlv1.GetTopicRequest{Topic: "orders"})
	if err != nil || got.GetId() != made.GetId() || got.GetRetention().GetTime().AsDuration() != time.Hour {
		t.Errorf("get: %v %v", got, err)
	}
	updated, err := c.UpdateTopic(ctx, &controlv1.UpdateTopicRequest{
		Topic:      &controlv1.Topic{Topic: "orders", Etag: made.GetEtag(), BatchBytesMax: 4096},
		UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"retention", "batch_bytes_max", "etag"}},
	})
	if err != nil || updated.GetBatchBytesMax() != 4096 || updated.GetRetention().GetTime() != nil {
		t.Errorf("update: %v %v", updated, err)
	}
	_, err = c.UpdateTopic(ctx, &controlv1.UpdateTopicRequest{
		Topic: &controlv1.Topic{Topic: "orders"}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"colour"}},
	})
	if faultwire.Reason(err) != "INVALID" || !strings.Contains(err.Error(), "segment.bytes") {
		t.Errorf("unknown path: %v", err)
	}
	cluster, err := c.GetCluster(ctx, &controlv1.GetClusterRequest{})
	if err != nil || cluster.GetTopics() != 1 || cluster.GetPartitions() != 2 || cluster.GetPartitionsWithoutLeader() != 2 || cluster.GetBrokers() != 1 {
		t.Errorf("cluster: %v %v", cluster, err)
	}
	brokers, err := c.ListBrokers(ctx, &controlv1.ListBrokersRequest{})
	if err != nil || len(brokers.GetBrokers()) != 1 || brokers.GetBrokers()[0].GetLeads() != 2 {
		t.Errorf("brokers: %v %v", brokers, err)
	}
	if _, err := c.DeleteTopic(ctx, &controlv1.DeleteTopicRequest{Topic: "orders", Id: made.GetId()}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err = c.GetTopic(ctx, &controlv1.GetTopicRequest{Topic: "orders"}); faultwire.Reason(err) != "NOT_FOUND" {
		t.Errorf("after delete: %v", err)
	}
}

func TestRefusesWhatATopicCannotBe(t *testing.T) {
	r := newRig(t)
	c := r.start(nil)
	r.await("a coordinator", led)
	for _, refused := range []struct {
		topic *controlv1.Topic
		want  string
	}{
		{nil, "topic is missing"},
		{&controlv1.Topic{Topic: "x", Partitions: -1}, "partitions: -1"},
		{&controlv1.Topic{Topic: "x", BatchBytesMax: -1}, "batchBytesMax: -1"},
		{&controlv1.Topic{Topic: "x", Durability: 9}, "durability: 9"},
		{&controlv1.Topic{Topic: "x", Cleanup: 9}, "cleanup: 9"},
		{&controlv1.Topic{Topic: "x", Segment: &controlv1.SegmentSettings{Age: &durationpb.Duration{Seconds: 1, Nanos: -1}}}, "segment.age"},
		{&controlv1.Topic{Topic: "x", Namespace: "b"}, `the request says "a" and its topic "b"`},
	} {
		_, err := c.CreateTopic(t.Context(), &controlv1.CreateTopicRequest{Namespace: "a", Topic: refused.topic})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("want %q: %v", refused.want, err)
		}
	}
	for _, token := range []string{"!", strings.Repeat("A", 1000)} {
		_, err := c.ListTopics(t.Context(), &controlv1.ListTopicsRequest{PageToken: token})
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "pageToken") {
			t.Errorf("token: %v", err)
		}
	}
	if _, err := c.ListTopics(t.Context(), &controlv1.ListTopicsRequest{PageSize: 1001}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("page size: %v", err)
	}
}

func TestStandbyAnswersSoAndTakesOver(t *testing.T) {
	r := newRig(t)
	a := r.start(func(c *coordinator.Config) { c.NodeID = "a" })
	first := r.await("a coordinator", led)
	b := r.start(func(c *coordinator.Config) { c.NodeID = "b" })
	_, err := b.ListTopics(t.Context(), &controlv1.ListTopicsRequest{})
	if status.Code(err) != codes.Unavailable || faultwire.Reason(err) != "NOT_COORDINATOR" {
		t.Errorf("the standby answers %v", err)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	next := r.await("the other", func(v *topology.View) bool { return v.Coordinator != nil && v.Coordinator.Value.ID == "b" })
	if next.Cluster.Value.ID != first.Cluster.Value.ID {
		t.Error("another cluster")
	}
}

// A killed coordinator leaves its key under a lease of a minute; the restarted one does not wait for that, and nominates the restarted broker.
func TestRestartAfterKill(t *testing.T) {
	r := newRig(t)
	lease, err := r.store.Grant(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	value, err := topology.Encode(topology.Live{V: 1, ID: "a", Incarnation: 1, Lease: lease})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.Txn(t.Context(), nil, []topology.Op{{Key: topology.CoordinatorKey, Value: value, Lease: lease}}); err != nil {
		t.Fatal(err)
	}
	r.broker("1")
	c := r.start(func(c *coordinator.Config) { c.NodeID = "a" })
	r.await("its new life", func(v *topology.View) bool { return led(v) && v.Coordinator.Value.Incarnation > 1 })
	r.create(c, &controlv1.CreateTopicRequest{Topic: &controlv1.Topic{Topic: "orders"}})
	r.broker("1")
	r.await("the nomination", func(v *topology.View) bool {
		for _, all := range v.Partitions {
			return all[0].Value.Leader.Incarnation == 2 && all[0].Value.Epoch == 2
		}
		return false
	})
}

func TestWrongClusterEndsRun(t *testing.T) {
	r := newRig(t)
	r.start(nil)
	r.await("a coordinator", led)
	other := r.start(func(c *coordinator.Config) { c.ClusterID = "00000000-0000-4000-8000-000000000001" })
	for other.Ready() == nil {
		t.Fatal("it joined")
	}
	if _, err := other.ListTopics(t.Context(), &controlv1.ListTopicsRequest{}); err == nil {
		t.Error("it serves")
	}
	if err := other.stop(); !fault.Is(err, fault.WrongCluster) {
		t.Errorf("run ended with %v", err)
	}
}

// Without etcd the coordinator is there and says what it lacks; when etcd is back it goes on.
func TestWaitsForTheStore(t *testing.T) {
	r := newRig(t)
	r.store.SetUnavailable(true)
	c := r.start(nil)
	code, body := r.get(c.Addrs().HTTP, "/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "etcd") {
		t.Errorf("readyz %d %q", code, body)
	}
	if code, _ := r.get(c.Addrs().HTTP, "/livez"); code != http.StatusOK {
		t.Errorf("livez %d", code)
	}
	_, err := c.ListTopics(t.Context(), &controlv1.ListTopicsRequest{})
	if status.Code(err) != codes.Unavailable {
		t.Errorf("answers %v", err)
	}
	r.store.SetUnavailable(false)
	r.await("a coordinator", led)
	var about map[string]string
	_, body = r.get(c.Addrs().HTTP, "/version")
	if err := json.Unmarshal([]byte(body), &about); err != nil || about["version"] != "test" || about["service"] != "sq-coordinator" {
		t.Errorf("version %q: %v", body, err)
	}
	if _, body := r.get(c.Addrs().Admin, "/metrics"); !strings.Contains(body, "sq_coordinator_active_state") {
		t.Errorf("metrics: %q", body)
	}
}

func (r *rig) get(addr, path string) (int, string) {
	r.t.Helper()
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return r.net.Dial(ctx, addr) },
	}}
	response, err := client.Get("http://" + addr + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestConfigNamesTheField(t *testing.T) {
	for want, change := range map[string]func(*coordinator.Config){
		"grpc-host":      func(c *coordinator.Config) { c.GRPCHost = "nowhere" },
		"http-host":      func(c *coordinator.Config) { c.HTTPHost = "" },
		"advertise-grpc": func(c *coordinator.Config) { c.AdvertiseGRPC = "x" },
		"cluster-id":     func(c *coordinator.Config) { c.ClusterID = "x" },
		"lease-ttl":      func(c *coordinator.Config) { c.LeaseTTL = time.Hour },
		"deleted-grace":  func(c *coordinator.Config) { c.DeletedGrace = 0 },
	} {
		cfg := coordinator.Defaults()
		change(&cfg)
		if err := cfg.Validate(); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%s: %v", want, err)
		}
	}
	if err := coordinator.Defaults().Validate(); err != nil {
		t.Error(err)
	}
}
