package broker_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	topicID   = partition.UUIDOf(11, 12)
	replicaID = partition.UUIDOf(21, 22)
	orders    = partition.ID{Topic: topicID}
)

// world is what a broker lives in. The test plays the coordinator and the gateways.
type world struct {
	store *memstore.Store
	net   *memnet.Network
	real  transport.Network // instead of net, if set
	log   io.Writer
}

func newWorld(t *testing.T) *world {
	w := &world{store: memstore.New(clock.Real()), net: memnet.New(), log: t.Output()}
	t.Cleanup(func() { _ = w.store.Close() })
	return w
}

// running is a broker that runs.
type running struct {
	*broker.Broker
	t     *testing.T
	world *world
	stop  context.CancelFunc
	ended chan error
}

func (w *world) config() broker.Config {
	cfg := broker.Defaults()
	cfg.NodeID, cfg.DataDir, cfg.JournalSize = 1, "in the test", 1<<20
	cfg.CapnpHost, cfg.HTTPHost, cfg.AdminHost = "broker:0", "broker:0", ""
	if w.real != nil {
		cfg.CapnpHost, cfg.HTTPHost = "127.0.0.1:0", "127.0.0.1:0"
	}
	return cfg
}

// at is the network as a host sees it.
func (w *world) at(host string) transport.Network {
	if w.real != nil {
		return w.real
	}
	return w.net.At(host)
}

func (w *world) deps(dir vfs.FS) broker.Deps {
	return broker.Deps{FS: dir, Deps: node.Deps{
		Clock: clock.Real(), Network: w.at("broker"), Store: w.store, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Metrics: prometheus.NewRegistry(), Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: "test",
	}}
}

// start runs a broker on a directory. It ends with the test, or by stop or kill.
func (w *world) start(t *testing.T, dir vfs.FS) *running {
	t.Helper()
	b, err := broker.New(t.Context(), w.config(), w.deps(dir))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := &running{Broker: b, t: t, world: w, stop: cancel, ended: make(chan error, 1)}
	go func() { n.ended <- b.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-n.ended
	})
	return n
}

// end stops the broker in order and gives what Run returned.
func (n *running) end() error {
	n.stop()
	return n.wait()
}

// wait gives what Run returned.
func (n *running) wait() error {
	err := <-n.ended
	n.ended <- err
	return err
}

// live waits until a life with at least this incarnation is registered.
func (w *world) live(t *testing.T, atLeast partition.Incarnation) topology.Live {
	t.Helper()
	for range 1000 {
		kv, ok, _, err := w.store.Get(t.Context(), topology.BrokerLiveKey(1))
		if err == nil && ok {
			live, err := topology.Decode[topology.Live](kv.Value)
			if err != nil {
				t.Fatal(err)
			}
			if live.Incarnation >= atLeast {
				return live
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("no life %d of the broker registered", atLeast)
	return topology.Live{}
}

// put writes a value whatever there was.
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

// create makes the topic "orders" with one partition, as the coordinator does, and nominates the registered life.
func (w *world) create(t *testing.T, change func(*topology.Topic)) {
	t.Helper()
	topic := topology.Topic{
		V: 1, ID: topicID, Namespace: topology.DefaultNamespace, Name: "orders", Partitions: 1, ReplicationFactor: 1, MapVersion: 1,
		Durability: topology.DurabilityQuorum, SegmentBytes: 1 << 20, SegmentAge: topology.Duration(time.Hour), BatchBytesMax: 64 << 10,
		Created: time.Now(),
	}
	if change != nil {
		change(&topic)
	}
	w.put(t, topology.TopicKey(topicID), topic)
	w.put(t, topology.NameKey(topic.FullName()), topology.TopicRef{V: 1, ID: topicID})
	leader := topology.Leader{Broker: 1, Incarnation: w.live(t, 1).Incarnation, Replica: replicaID}
	w.put(t, topology.PartitionKey(orders), topology.First(leader, []partition.Member{{Broker: 1, Replica: replicaID}}))
}

// nominate gives the partition's next epoch to the life that is registered.
func (w *world) nominate(t *testing.T, atLeast partition.Incarnation) {
	t.Helper()
	live := w.live(t, atLeast)
	kv, _, _, err := w.store.Get(t.Context(), topology.PartitionKey(orders))
	if err != nil {
		t.Fatal(err)
	}
	old, err := topology.Decode[topology.Assignment](kv.Value)
	if err != nil {
		t.Fatal(err)
	}
	w.put(t, topology.PartitionKey(orders), old.Nominate(topology.Leader{Broker: 1, Incarnation: live.Incarnation, Replica: replicaID}, old.Members))
}

// ready waits until the registered life leads the partition, as the store and the broker itself have it.
func (n *running) ready() {
	n.t.Helper()
	var err error
	for range 1000 {
		if err = n.Ready(); err == nil && n.leads() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	n.t.Fatalf("not ready: %v", err)
}

func (n *running) leads() bool {
	kv, _, _, err := n.world.store.Get(n.t.Context(), topology.PartitionKey(orders))
	if err != nil {
		return false
	}
	a, err := topology.Decode[topology.Assignment](kv.Value)
	return err == nil && a.Status == topology.Active && a.Leader.Incarnation == n.world.live(n.t, 1).Incarnation
}

// client connects to the broker.
func (n *running) client(role wirecapnp.Role) *frame.Client {
	n.t.Helper()
	conn, err := n.world.at("client").Dial(n.t.Context(), n.Addrs().Capnp)
	if err != nil {
		n.t.Fatal(err)
	}
	client := frame.NewClient(conn, frame.ClientConfig{})
	n.t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Hello(n.t.Context(), frame.HelloParams{Role: role}); err != nil {
		n.t.Fatal(err)
	}
	return client
}

// session sends batches as one idempotent producer.
type session struct {
	t        *testing.T
	producer uint64
	sequence uint64
	sent     [][]byte // every batch, by its place
}

// next builds the session's next batch of values.
func (s *session) next(values ...string) []byte {
	s.t.Helper()
	var b batch.Builder
	for _, value := range values {
		if err := b.Add(batch.Record{Value: []byte(value), Timestamp: 1}); err != nil {
			s.t.Fatal(err)
		}
	}
	message, err := b.Build(nil, batch.BuildOptions{ProducerID: s.producer, BaseSequence: s.sequence})
	if err != nil {
		s.t.Fatal(err)
	}
	s.sequence += uint64(len(values))
	s.sent = append(s.sent, message)
	return message
}

// ack is the answer to a publish.
type ack struct {
	Base, Last partition.Offset
	Known, Dup bool
	Epoch      partition.Epoch
	Durability wirecapnp.Durability
}

func publish(ctx context.Context, client *frame.Client, message []byte) (ack, error) {
	reply, err := client.Call(ctx, publishTo(orders), message)
	if err != nil {
		return ack{}, faultwire.FromCall(err)
	}
	defer reply.Release()
	out, err := reply.Response.Publish()
	if err != nil {
		return ack{}, err
	}
	return ack{
		Base: partition.Offset(out.BaseOffset()), Last: partition.Offset(out.LastOffset()), Known: out.OffsetKnown(), Dup: out.Duplicate(),
		Epoch: partition.Epoch(out.Epoch()), Durability: out.Durability(),
	}, nil
}

func publishTo(id partition.ID) func(wirecapnp.Request) error {
	return func(request wirecapnp.Request) error {
		in, err := request.NewPublish()
		if err != nil {
			return err
		}
		return about(in, id)
	}
}

// about names the partition of a request.
func about(in interface {
	NewTopic() (batchcapnp.Uuid, error)
	SetPartition(v uint32)
}, id partition.ID,
) error {
	topic, err := in.NewTopic()
	if err != nil {
		return err
	}
	hi, lo := id.Topic.Halves()
	topic.SetHi(hi)
	topic.SetLo(lo)
	in.SetPartition(uint32(id.Index))
	return nil
}

// fetched is what one fetch gave.
type fetched struct {
	Values        []string // of records
	Controls      int      // batches
	Next          partition.Offset
	HighWatermark partition.Offset
}

func fetch(ctx context.Context, client *frame.Client, offset partition.Offset, wait time.Duration) (fetched, error) {
	reply, err := client.Call(ctx, func(request wirecapnp.Request) error {
		in, err := request.NewFetch()
		if err != nil {
			return err
		}
		in.SetOffset(uint64(offset))
		in.SetWaitMillis(uint32(wait.Milliseconds()))
		return about(in, orders)
	})
	if err != nil {
		return fetched{}, faultwire.FromCall(err)
	}
	defer reply.Release()
	out, err := reply.Response.Fetch()
	if err != nil {
		return fetched{}, err
	}
	got := fetched{Next: partition.Offset(out.NextOffset()), HighWatermark: partition.Offset(out.HighWatermark())}
	var reader batch.Reader
	for message, err := range batch.Each(reply.Body) {
		if err != nil {
			return got, err
		}
		header, err := batch.ParseHeader(message)
		if err != nil {
			return got, err
		}
		if header.IsControl() {
			got.Controls++
			continue
		}
		if err := reader.Reset(message); err != nil {
			return got, err
		}
		for i := range reader.Len() {
			var record batch.Record
			reader.Record(i, &record)
			got.Values = append(got.Values, string(record.Value))
		}
	}
	return got, nil
}

// readAll reads from the start to the high watermark.
func readAll(t *testing.T, client *frame.Client) []string {
	t.Helper()
	var values []string
	for offset := partition.Offset(0); ; {
		got, err := fetch(t.Context(), client, offset, 0)
		if err != nil {
			t.Fatalf("fetch at %d: %v", offset, err)
		}
		values = append(values, got.Values...)
		if got.Next >= got.HighWatermark {
			return values
		}
		if got.Next == offset {
			t.Fatalf("fetch at %d makes no progress below %d", offset, got.HighWatermark)
		}
		offset = got.Next
	}
}

func wantKind(t *testing.T, err error, kind fault.Kind) *fault.Error {
	t.Helper()
	if !fault.Is(err, kind) {
		t.Fatalf("got %v, want the kind %v", err, kind)
	}
	f, _ := errors.AsType[*fault.Error](err)
	return f
}
