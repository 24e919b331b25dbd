package data_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/data"
	"github.com/seedqueue/sq/services/broker/internal/replica"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	cluster = partition.UUIDOf(7, 8)
	topic   = partition.UUIDOf(1, 2)
	known   = partition.ID{Topic: topic, Index: 3}
)

// fake is a broker with one replica that notes what it is asked and answers what it is told to.
type fake struct {
	err    error // of every call, if set
	panics bool  // Seal does
	waits  bool  // Fetch and Harvest do, until their context ends

	mu struct {
		sync.Mutex
		asked     []any
		published []replica.Publish
	}
	harvests []sealed.Harvest
	table    sealed.Excerpt
}

func (f *fake) note(what any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mu.asked = append(f.mu.asked, what)
	return f.err
}

// count gives how much was asked.
func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.mu.asked)
}

// last gives what was asked last.
func (f *fake) last() any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.mu.asked) == 0 {
		return nil
	}
	return f.mu.asked[len(f.mu.asked)-1]
}

func (f *fake) Replica(id partition.ID) (data.Replica, bool) { return f, id == known }

type askedHarvest struct {
	Wait time.Duration
	Max  int
}

func (f *fake) Harvest(ctx context.Context, wait time.Duration, limit int) ([]sealed.Harvest, error) {
	if f.waits {
		_ = f.note(askedHarvest{wait, limit})
		<-ctx.Done()
		return nil, fault.Wrap("harvest", ctx.Err())
	}
	return f.harvests, f.note(askedHarvest{wait, limit})
}

func (f *fake) Next(context.Context) (uint64, error) { return 42, f.note("next id") }

func (f *fake) Topic(id partition.UUID) (topology.Topic, bool) {
	return topology.Topic{ID: topic, Namespace: "default", Name: "orders", MapVersion: 5, BatchBytesMax: 2000}, id == topic
}

func (f *fake) Publish(p replica.Publish) {
	f.mu.Lock()
	f.mu.published = append(f.mu.published, p)
	n := len(f.mu.published)
	f.mu.Unlock()
	if f.err != nil {
		p.Release()
		p.Done(replica.Published{}, f.err)
		return
	}
	if p.AckNone {
		p.Done(replica.Published{Epoch: partition.Epoch(n), Durability: wirecapnp.Durability_none}, nil)
	}
}

func (f *fake) Fetch(ctx context.Context, got replica.Fetch) (replica.Fetched, error) {
	if f.waits {
		_ = f.note(got)
		<-ctx.Done()
		return replica.Fetched{}, fault.Wrap("fetch", ctx.Err())
	}
	return replica.Fetched{
		Epoch: 5, HighWatermark: 20, LogStart: 2, LocalStart: 4, NextOffset: got.Offset, Durability: wirecapnp.Durability_fsyncQuorum,
	}, f.note(got)
}

func (f *fake) ListOffset(_ context.Context, at replica.ListOffset) (replica.ListedOffset, error) {
	return replica.ListedOffset{Offset: 9, Epoch: 5, HighWatermark: 20, LogStart: 2, LocalStart: 4}, f.note(at)
}

func (f *fake) Standings(context.Context) ([]replica.Standing, error) {
	return []replica.Standing{{
		Member: partition.Member{Broker: 3, Replica: partition.UUIDOf(3, 4)}, Learner: true, Match: 18, HighWatermark: 17, LastHeard: 1500 * time.Millisecond,
	}}, nil
}

func (f *fake) Seal(context.Context) (replica.SealResult, error) {
	if f.panics {
		panic("asked to")
	}
	return replica.SealResult{SealedEnd: 10, HighWatermark: 20, Sealed: true}, f.note("seal")
}

type askedTrim struct {
	Before partition.Offset
	Local  bool
}

func (f *fake) Trim(_ context.Context, before partition.Offset, local bool) (replica.TrimResult, error) {
	return replica.TrimResult{LogStart: 2, LocalStart: 4}, f.note(askedTrim{before, local})
}

func (f *fake) ID() partition.UUID { return partition.UUIDOf(5, 6) }

func (f *fake) State() replica.State {
	_ = f.note("state")
	return replica.State{
		Epoch: 5, HighWatermark: 20, LogStart: 2, LocalStart: 4, End: 21, SealedEnd: 10, TierEnd: 8, ExportedEnd: 6, SizeBytes: 1000,
		Durability: wirecapnp.Durability_writtenQuorum, Active: true,
	}
}

type askedPart struct {
	Base     partition.Offset
	Position uint64
	Max      int
}

func (f *fake) ReadSealed(base partition.Offset, position uint64, limit int) (replica.SealedPart, error) {
	return replica.SealedPart{Size: 100, Index: []byte("index"), Snapshot: []byte("snapshot")}, f.note(askedPart{base, position, limit})
}

type askedTable struct {
	Since uint64
	From  partition.Offset
	Max   int
}

func (f *fake) TierTable(_ context.Context, since uint64, from partition.Offset, limit int) (sealed.Excerpt, error) {
	return f.table, f.note(askedTable{since, from, limit})
}

func (f *fake) CommitTier(_ context.Context, segments []sealed.Segment) (sealed.Committed, error) {
	return sealed.Committed{TierEnd: 8, TableVersion: 77}, f.note(segments)
}

func (f *fake) Exported(_ context.Context, e sealed.Exported) error { return f.note(e) }
func (f *fake) Collected(_ context.Context, keys []string) error    { return f.note(keys) }

func newServer(t testing.TB, f *fake, registry *prometheus.Registry) *data.Server {
	t.Helper()
	server, err := data.New(data.Config{
		Replicas: f, Peers: f, ProducerIDs: f, Cluster: cluster, Node: 1, Software: "sq-broker/test", Clock: clock.Real(),
		Log: slog.New(slog.DiscardHandler), Metrics: registry, Tracers: noop.NewTracerProvider(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// serve runs the data port over a fake until the test ends.
func serve(t *testing.T, f *fake) (*data.Server, string) {
	t.Helper()
	server := newServer(t, f, prometheus.NewRegistry())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return server, listener.Addr().String()
}

// dial connects in a role.
func dial(t *testing.T, addr string, role wirecapnp.Role) *frame.Client {
	t.Helper()
	client := connect(t, addr)
	if _, err := client.Hello(t.Context(), frame.HelloParams{Role: role, ClientID: "2", ClusterID: cluster.String()}); err != nil {
		t.Fatal(err)
	}
	return client
}

func connect(t *testing.T, addr string) *frame.Client {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	client := frame.NewClient(conn, frame.ClientConfig{})
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// named is a request that names a partition.
type named interface {
	NewTopic() (batchcapnp.Uuid, error)
	SetPartition(v uint32)
}

// about makes a request be about the known partition.
func about(in named) {
	id, err := in.NewTopic()
	if err != nil {
		panic(err)
	}
	hi, lo := topic.Halves()
	id.SetHi(hi)
	id.SetLo(lo)
	in.SetPartition(uint32(known.Index))
}

func wantFault(t *testing.T, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	got, ok := errors.AsType[*fault.Error](faultwire.FromCall(err))
	if !ok || got.Kind != kind {
		t.Fatalf("got %v, want the kind %v", err, kind)
	}
	return got
}

// oneBatch builds a batch of one record.
func oneBatch(t *testing.T, value string, options batch.BuildOptions) []byte {
	t.Helper()
	var builder batch.Builder
	if err := builder.Add(batch.Record{Value: []byte(value), Timestamp: 1}); err != nil {
		t.Fatal(err)
	}
	message, err := builder.Build(nil, options)
	if err != nil {
		t.Fatal(err)
	}
	return message
}
