package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster whose metadata lies in a store, as a gateway finds it.
type world struct {
	*standin.World
	store *memstore.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: standin.NewWorld(t, 2), store: memstore.New(clock.Real())}
	t.Cleanup(func() { _ = w.store.Close() })
	standin.NewCoordinator(t, w.World, "c1", "c1:6260")
	view := w.Views.View()
	w.put(t, topology.ClusterKey, view.Cluster.Value)
	w.put(t, topology.CoordinatorKey, func() topology.Live { live := view.Coordinator.Value; live.Incarnation = 1; return live }())
	w.put(t, topology.NamespaceKey(topology.DefaultNamespace), topology.Namespace{V: 1})
	w.put(t, topology.NameKey(w.Topic.FullName()), topology.TopicRef{V: 1, ID: w.Topic.ID})
	w.put(t, topology.TopicKey(w.Topic.ID), w.Topic)
	for i := range w.Logs {
		assignment, _ := view.Partition(w.ID(i))
		w.put(t, topology.PartitionKey(w.ID(i)), assignment.Value)
	}
	for id, broker := range view.Brokers {
		w.put(t, topology.BrokerIdentKey(id), topology.BrokerIdent{V: 1, Incarnation: 1})
		w.put(t, topology.BrokerLiveKey(id), broker.Live.Value)
	}
	return w
}

func (w *world) put(t *testing.T, key string, value any) {
	t.Helper()
	data, err := topology.Encode(value)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.Txn(t.Context(), nil, []topology.Op{{Key: key, Value: data}}); err != nil {
		t.Fatal(err)
	}
}

// gatewayAt makes a gateway on a host.
func (w *world) gatewayAt(t *testing.T, host string, change func(*Config)) *Gateway {
	t.Helper()
	cfg := Defaults()
	cfg.NodeID, cfg.CapnpHost, cfg.GRPCHost, cfg.HTTPHost, cfg.AdminHost = host, host+":6064", host+":6060", host+":6062", host+":6069"
	if change != nil {
		change(&cfg)
	}
	g, err := New(t.Context(), cfg, Deps{
		Clock: clock.Real(), Network: w.Net.At(host), Store: w.store, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// run runs a gateway until stop is called or the test ends; stopped gives what Run returned.
func run(t *testing.T, g *Gateway) (stop func(), stopped <-chan error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		done <- g.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return cancel, done
}

// await waits for a condition that another goroutine makes true.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not come", what)
		}
	}
}

func (w *world) do(t *testing.T, host, method, path, body string) (code int, answer string) {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return w.Net.At("client").Dial(ctx, addr) },
	}
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// Invariant 1: two gateways in turn, and one of them gone, make no difference to a reader with a cursor.
func TestGatewaysAreInterchangeable(t *testing.T) {
	w := newWorld(t)
	first, second := w.gatewayAt(t, "g1", nil), w.gatewayAt(t, "g2", nil)
	stop, stopped := run(t, first)
	run(t, second)
	await(t, "ready", func() bool { return first.Ready() == nil && second.Ready() == nil })
	hosts := []string{"g1:6062", "g2:6062"}
	for i := range 20 {
		if code, answer := w.do(t, hosts[i%2], "POST", "/v1/topics/orders/records", fmt.Sprint(i)); code != 200 {
			t.Fatalf("publish: %d %s", code, answer)
		}
	}
	seen := map[string]bool{}
	query := "maxRecords=3"
	for i := 0; ; i++ {
		if i == 2 { // the rest is read while and after one goes
			stop()
			if err := <-stopped; err != nil {
				t.Errorf("run: %v", err)
			}
			hosts[0] = hosts[1]
		}
		code, answer := w.do(t, hosts[i%2], "GET", "/v1/topics/orders/records?"+query, "")
		var page struct {
			Records    []struct{ Text string }
			NextCursor string
			EndReached bool
		}
		if err := json.Unmarshal([]byte(answer), &page); code != 200 || err != nil {
			t.Fatalf("fetch: %d %s", code, answer)
		}
		for _, record := range page.Records {
			if seen[record.Text] {
				t.Errorf("record %s came twice", record.Text)
			}
			seen[record.Text] = true
		}
		if query = "maxRecords=3&cursor=" + page.NextCursor; page.EndReached {
			break
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d of 20 records came", len(seen))
	}
}

func TestAllPortsServe(t *testing.T) {
	w := newWorld(t)
	g := w.gatewayAt(t, "g1", nil)
	run(t, g)
	await(t, "ready", func() bool { return g.Ready() == nil })
	conn, err := grpc.NewClient("passthrough:///"+g.Addrs().GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return w.Net.At("client").Dial(ctx, addr) }))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	topic, err := controlv1.NewTopicServiceClient(conn).GetTopic(t.Context(), &controlv1.GetTopicRequest{Topic: "orders"})
	if err != nil || len(topic.GetPartitionStates()) != 2 || !topic.GetPartitionStates()[0].GetActive() {
		t.Errorf("gRPC: %v, %v", topic, err)
	}
	client := w.dial(t, g)
	reply, err := client.Call(t.Context(), publishTo(w.ID(0)), standin.One(t, "v", batch.Key128{}))
	if err != nil {
		t.Fatal(err)
	}
	reply.Release()
	for path, has := range map[string]string{
		"g1:6062/livez": "live", "g1:6062/readyz": "ready", "g1:6062/version": `"sq-gateway"`, "g1:6062/openapi.json": "/records",
		"g1:6069/metrics": "sq_gateway_data_requests_total",
	} {
		host, rest, _ := strings.Cut(path, "/")
		if code, answer := w.do(t, host, "GET", "/"+rest, ""); code != 200 || !strings.Contains(answer, has) {
			t.Errorf("%s: %d %.200s", path, code, answer)
		}
	}
	kv, ok, _, err := w.store.Get(t.Context(), topology.GatewayLiveKey("g1"))
	live, decodeErr := topology.Decode[topology.Live](kv.Value)
	if err != nil || !ok || decodeErr != nil || live.Capnp != "g1:6064" || live.GRPC != "g1:6060" || live.HTTP != "g1:6062" || live.Lease == 0 {
		t.Errorf("registration: %+v, %v, %v", live, err, decodeErr)
	}
}

func (w *world) dial(t *testing.T, g *Gateway) *frame.Client {
	t.Helper()
	conn, err := w.Net.At("client").Dial(t.Context(), g.Addrs().Capnp)
	if err != nil {
		t.Fatal(err)
	}
	client := frame.NewClient(conn, frame.ClientConfig{})
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Hello(t.Context(), frame.HelloParams{ClientID: "test"}); err != nil {
		t.Fatal(err)
	}
	return client
}

func publishTo(id partition.ID) func(wirecapnp.Request) error {
	return func(req wirecapnp.Request) error {
		in, err := req.NewPublish()
		if err != nil {
			return err
		}
		in.SetPartition(uint32(id.Index))
		topic, err := in.NewTopic()
		hi, lo := id.Topic.Halves()
		topic.SetHi(hi)
		topic.SetLo(lo)
		return err
	}
}

// A trace goes from the client over HTTP and Cap'n Proto through the gateway to the broker, and so does the deadline.
func TestTracesAndDeadlinesTravel(t *testing.T) {
	w := newWorld(t)
	g := w.gatewayAt(t, "g1", nil)
	run(t, g)
	await(t, "ready", func() bool { return g.Ready() == nil })
	seen := make(chan struct{}, 1)
	w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
		if req.Message.Which() == wirecapnp.Request_Which_publish {
			if req.Message.TraceIdHi() != 0x0102030405060708 || req.Message.TraceIdLo() != 0x090a0b0c0d0e0f10 {
				t.Errorf("the trace is %x %x", req.Message.TraceIdHi(), req.Message.TraceIdLo())
			}
			if left := req.Message.TimeoutMillis(); left == 0 || left > 30_000 {
				t.Errorf("the deadline is in %d ms", left)
			}
			seen <- struct{}{}
		}
		return false
	})
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, addr string) (net.Conn, error) { return w.Net.At("client").Dial(ctx, addr) },
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://g1:6062/v1/topics/orders/records", strings.NewReader("v"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", "00-0102030405060708090a0b0c0d0e0f10-0102030405060708-01")
	res, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	<-seen
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, SpanID: trace.SpanID{1}, TraceFlags: trace.FlagsSampled,
	})
	ctx, cancel := context.WithTimeout(trace.ContextWithSpanContext(t.Context(), span), 10*time.Second)
	defer cancel()
	reply, err := w.dial(t, g).Call(ctx, publishTo(w.ID(0)), standin.One(t, "v", batch.Key128{}))
	if err != nil {
		t.Fatal(err)
	}
	reply.Release()
	<-seen
}

// Invariant 4: what is in flight is answered, what waits ends, the registration goes.
func TestStopAnswersWhatIsInFlight(t *testing.T) {
	w := newWorld(t)
	g := w.gatewayAt(t, "g1", nil)
	stop, stopped := run(t, g)
	await(t, "registration", func() bool { _, ok, _, _ := w.store.Get(t.Context(), topology.GatewayLiveKey("g1")); return ok })
	received, answer := make(chan struct{}), make(chan struct{})
	w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
		if req.Message.Which() != wirecapnp.Request_Which_publish {
			return false
		}
		go func() {
			close(received)
			<-answer
			_ = req.Reply(func(res wirecapnp.Response) error { _, err := res.NewPublish(); return err }, nil)
		}()
		return true
	})
	client := w.dial(t, g)
	publish, err := client.Start(t.Context(), publishTo(w.ID(0)), standin.One(t, "v", batch.Key128{}))
	if err != nil {
		t.Fatal(err)
	}
	poll, err := client.Start(t.Context(), func(req wirecapnp.Request) error {
		in, err := req.NewFetch()
		if err != nil {
			return err
		}
		in.SetWaitMillis(60_000)
		topic, err := in.NewTopic()
		hi, lo := w.Topic.ID.Halves()
		topic.SetHi(hi)
		topic.SetLo(lo)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	<-received
	stop()
	if _, err := poll.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("the long poll: %v", err)
	}
	await(t, "goAway", client.GoingAway)
	close(answer)
	if reply, err := publish.Wait(t.Context()); err != nil {
		t.Errorf("the publish in flight: %v", err)
	} else {
		reply.Release()
	}
	if err := <-stopped; err != nil {
		t.Errorf("run: %v", err)
	}
	if _, ok, _, _ := w.store.Get(t.Context(), topology.GatewayLiveKey("g1")); ok {
		t.Error("the registration is still there")
	}
	if g.Ready() == nil {
		t.Error("it is still ready")
	}
}

// Invariant 2.
func TestStartWithoutEtcd(t *testing.T) {
	w := newWorld(t)
	w.store.SetFaults(func(memstore.Call) memstore.Fault { return memstore.Unavailable })
	g := w.gatewayAt(t, "g1", nil)
	run(t, g)
	await(t, "answer", func() bool {
		code, answer := w.do(t, "g1:6062", "GET", "/readyz", "")
		return code == 503 && strings.Contains(answer, "etcd")
	})
	conn, err := w.Net.At("client").Dial(t.Context(), "g1:6064")
	if err != nil {
		t.Fatal(err)
	}
	client := frame.NewClient(conn, frame.ClientConfig{})
	defer client.Close()
	if _, err := client.Hello(t.Context(), frame.HelloParams{}); err == nil || !strings.Contains(err.Error(), "metadata") {
		t.Errorf("hello: %v", err)
	}
	w.store.SetFaults(nil)
	await(t, "ready", func() bool { return g.Ready() == nil })
}

func TestAnotherClustersEtcdIsRefused(t *testing.T) {
	w := newWorld(t)
	g := w.gatewayAt(t, "g1", func(c *Config) { c.ClusterID = partition.UUIDOf(9, 9).String() })
	_, stopped := run(t, g)
	if err := <-stopped; !fault.Is(err, fault.WrongCluster) || !strings.Contains(err.Error(), "cluster-id") {
		t.Errorf("run: %v", err)
	}
}

func TestBadConfigNamesTheField(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"capnp-host":     func(c *Config) { c.CapnpHost = "nowhere" },
		"http-host":      func(c *Config) { c.HTTPHost = "" },
		"advertise-grpc": func(c *Config) { c.AdvertiseGRPC = "x" },
		"cluster-id":     func(c *Config) { c.ClusterID = "x" },
		"body-memory":    func(c *Config) { c.BodyMemory = 1 },
		"calls":          func(c *Config) { c.Calls = 0 },
		"lease-ttl":      func(c *Config) { c.LeaseTTL = time.Hour },
	} {
		cfg := Defaults()
		change(&cfg)
		if err := cfg.Validate(); !fault.Is(err, fault.Invalid) || !strings.HasPrefix(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := Defaults().Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
}
