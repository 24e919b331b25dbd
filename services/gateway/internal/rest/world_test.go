package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
	"github.com/seedqueue/sq/services/gateway/internal/control"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
	"github.com/seedqueue/sq/services/gateway/internal/records"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster with a gateway's HTTP.
type world struct {
	*standin.World
	coordinator *standin.Coordinator
	gate        *admission.Gate
	handler     *Handler
	client      *http.Client
}

func newWorld(t testing.TB, partitions int, change func(*Config)) *world {
	t.Helper()
	w := &world{World: standin.NewWorld(t, partitions)}
	w.coordinator = standin.NewCoordinator(t, w.World, "c1", "c1:6260")
	router := route.NewRouter(w.Views, clock.Real())
	registry := prometheus.NewRegistry()
	cluster := upstream.New(upstream.Config{
		Router: router, Network: w.Net.At("gateway"), Clock: clock.Real(), Metrics: registry, Pool: frame.NewPool(), Limits: upstream.DefaultLimits(),
	})
	caller := cluster.Caller(upstream.Client{ID: "api"})
	t.Cleanup(caller.Close)
	data := records.New(records.Config{
		Router: router, Clock: clock.Real(), Limits: records.DefaultLimits(), Publish: caller,
		Reader: func() *upstream.Caller { return cluster.Caller(upstream.Client{ID: "reader"}) },
	})
	t.Cleanup(data.Close)
	ids := 0
	coordinator := control.NewCoordinator(router, w.Net.At("gateway"), clock.Real(), noop.NewTracerProvider(), func() string { ids++; return fmt.Sprint("id-", ids) }, control.DefaultLimits())
	t.Cleanup(func() { _ = coordinator.Close() })
	w.gate = admission.New(64<<20, 64<<20, 50, registry)
	network, memory := control.NewServers(control.ServerConfig{
		Services: control.Services{
			Topics: control.NewTopics(coordinator, router, caller, control.DefaultLimits()), Namespaces: control.NewNamespaces(coordinator),
			Cluster: control.NewCluster(coordinator), Data: data,
		},
		Gate: w.gate, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Metrics: registry, Tracers: noop.NewTracerProvider(), Limits: control.DefaultLimits(),
	})
	network.Stop()
	inside := bufconn.Listen(1 << 20)
	var served sync.WaitGroup
	served.Go(func() { _ = memory.Serve(inside) })
	t.Cleanup(func() { memory.Stop(); served.Wait() })
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return inside.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20), grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	cfg := Config{
		Conn: conn, Gate: w.gate, Sealer: func() cursor.Sealer { return cursor.NewSealer(router.Table().ClusterID()) }, Clock: clock.Real(),
		Health: telemetry.HealthHandler(telemetry.Health{Ready: func() error { return nil }, Service: "sq-gateway", Version: "test"}),
		Log:    slog.New(slog.DiscardHandler), Tracers: noop.NewTracerProvider(), Version: "test", Limits: DefaultLimits(),
	}
	if change != nil {
		change(&cfg)
	}
	if w.handler, err = New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	listener, err := w.Net.At("gateway").Listen(t.Context(), "gateway:6062")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served.Go(func() { _ = telemetry.ServeHTTP(ctx, cfg.Log, listener, w.handler) })
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return w.Net.At("client").Dial(ctx, "gateway:6062")
	}}
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.handler.Drain()
		cancel()
	})
	return w
}

// response of an HTTP request, read whole.
type response struct {
	code   int
	header http.Header
	body   string
}

// reason is that of the first detail of an error.
func (r response) reason() string {
	text, _ := r.detail("reason").(string)
	return text
}

func (r response) detail(name string) any {
	var p problem
	if json.Unmarshal([]byte(r.body), &p) != nil || len(p.Details) == 0 || p.Message == "" || p.Code != r.code {
		return nil
	}
	return p.Details[0][name]
}

// do makes a request; header holds names and values in turn.
func (w *world) do(t testing.TB, method, path, body string, header ...string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://gateway:6062"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return response{res.StatusCode, res.Header, string(data)}
}

// unjson reads JSON into a value.
func unjson[T any](t testing.TB, text string) T {
	t.Helper()
	var out T
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%v in %.300s", err, text)
	}
	return out
}
