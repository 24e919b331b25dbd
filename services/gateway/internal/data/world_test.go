package data

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const addr = "gateway:6064"

// world is a cluster with a gateway's data plane.
type world struct {
	*standin.World
	server  *Server
	gate    *admission.Gate
	created creator
}

// creator notes what it was asked to create and adds it to the View.
type creator struct {
	world *world
	mu    struct {
		sync.Mutex
		names []topology.Name
	}
}

func (c *creator) EnsureTopic(_ context.Context, name topology.Name) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.names = append(c.mu.names, name)
	if name.Topic == "../etc" {
		return fault.Errorf(fault.Invalid, "topic name is bad")
	}
	c.world.AddTopic(name.Topic, 1)
	return nil
}

func newWorld(t testing.TB, change func(*Config)) *world {
	t.Helper()
	w := &world{World: standin.NewWorld(t, 4)}
	w.created.world = w
	registry := prometheus.NewRegistry()
	router := route.NewRouter(w.Views, clock.Real())
	pool := frame.NewPool()
	w.gate = admission.New(64<<20, 8<<20, 10, registry)
	cfg := Config{
		Router: router, Gate: w.gate, Creator: &w.created, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Metrics: registry,
		Tracers: noop.NewTracerProvider(), Pool: pool, Limits: DefaultLimits(), Software: "sq-gateway/test",
		Cluster: upstream.New(upstream.Config{
			Router: router, Network: w.Net.At("gateway"), Clock: clock.Real(), Metrics: registry, Pool: pool, Limits: upstream.DefaultLimits(),
		}),
	}
	if change != nil {
		change(&cfg)
	}
	w.server = New(cfg)
	listener, err := w.Net.At("gateway").Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() {
		if err := w.server.Serve(ctx, listener); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		served.Wait()
	})
	return w
}

// dial connects and says Hello.
func (w *world) dial(t testing.TB, hello frame.HelloParams) (*frame.Client, error) {
	t.Helper()
	conn, err := w.Net.At("client").Dial(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	client := frame.NewClient(conn, frame.ClientConfig{})
	t.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	info, err := client.Hello(ctx, hello)
	if err == nil && info.ClusterID != w.Views.View().Cluster.Value.ID.String() {
		t.Errorf("cluster id %q", info.ClusterID)
	}
	return client, err
}

func (w *world) client(t testing.TB) *frame.Client {
	t.Helper()
	client, err := w.dial(t, frame.HelloParams{ClientID: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func setTopic(topic batchcapnp.Uuid, id partition.UUID) {
	hi, lo := id.Halves()
	topic.SetHi(hi)
	topic.SetLo(lo)
}

func publishTo(id partition.ID) func(wirecapnp.Request) error {
	return func(req wirecapnp.Request) error {
		in, err := req.NewPublish()
		if err != nil {
			return err
		}
		in.SetPartition(uint32(id.Index))
		topic, err := in.NewTopic()
		setTopic(topic, id.Topic)
		return err
	}
}

func fetchFrom(id partition.ID, offset uint64, wait time.Duration) func(wirecapnp.Request) error {
	return func(req wirecapnp.Request) error {
		in, err := req.NewFetch()
		if err != nil {
			return err
		}
		in.SetPartition(uint32(id.Index))
		in.SetOffset(offset)
		in.SetWaitMillis(uint32(wait.Milliseconds()))
		topic, err := in.NewTopic()
		setTopic(topic, id.Topic)
		return err
	}
}

func metadataOf(create bool, names ...string) func(wirecapnp.Request) error {
	return func(req wirecapnp.Request) error {
		in, err := req.NewMetadata()
		if err != nil {
			return err
		}
		in.SetAutoCreate(create)
		list, err := in.NewTopics(int32(len(names)))
		if err != nil {
			return err
		}
		for i, name := range names {
			if err := list.At(i).SetName(name); err != nil {
				return err
			}
		}
		return nil
	}
}

// kindOf gives the kind of an answered error as text; "" = none.
func kindOf(t testing.TB, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	remote, ok := err.(*frame.RemoteError) //nolint:errorlint // the very type is meant.
	if !ok {
		return fmt.Sprintf("%T: %v", err, err)
	}
	return fault.Kind(remote.Kind).String()
}
