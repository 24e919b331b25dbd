package tierer_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/objstore/flakybucket"
	"github.com/seedqueue/sq/libs/objstore/membucket"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/tierer"
	"github.com/seedqueue/sq/services/tierer/internal/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 20 * time.Second

// id is the partition that most tests have.
var id = partition.ID{Topic: partition.UUIDOf(1, 2), Index: 3}

// world has etcd, a bucket and a broker in memory.
type world struct {
	t       *testing.T
	network *memnet.Network
	store   *memstore.Store
	inside  *membucket.Bucket
	bucket  *flakybucket.Bucket
	broker  *standin.Broker
	cluster partition.UUID
	log     *logBuffer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, network: memnet.New(), store: memstore.New(clock.Real()), inside: membucket.New(clock.Real()), log: &logBuffer{}}
	t.Cleanup(func() { _ = w.store.Close() })
	w.bucket = flakybucket.New(w.inside)
	w.broker = standin.NewBroker(t, w.network.At("broker"), "broker")
	made, err := topology.Bootstrap(t.Context(), w.store, partition.UUIDOf(7, 7), clock.Real(), func() partition.UUID { return partition.UUIDOf(8, 8) })
	if err != nil {
		t.Fatal(err)
	}
	w.cluster = made.Value.ID
	w.put(topology.BrokerLiveKey(1), topology.Live{V: 1, ID: "1", Node: 1, Incarnation: 5, Capnp: w.broker.Addr})
	w.lead(id, 1)
	return w
}

func (w *world) put(key string, value any) {
	w.t.Helper()
	data, err := topology.Encode(value)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.Txn(w.t.Context(), nil, []topology.Op{{Key: key, Value: data}}); err != nil {
		w.t.Fatal(err)
	}
}

// lead makes the broker the leader of a partition.
func (w *world) lead(id partition.ID, epoch partition.Epoch) {
	w.t.Helper()
	w.put(topology.PartitionKey(id), topology.Assignment{
		V: 1, Epoch: epoch, Status: topology.Active, Leader: topology.Leader{Broker: 1, Incarnation: 5},
	})
	w.broker.With(id, func(l *standin.Log) { l.Epoch = epoch })
}

// seal appends sealed segments to a partition's log.
func (w *world) seal(id partition.ID, segments, batches, records, recordBytes int) []*standin.Segment {
	w.t.Helper()
	var made []*standin.Segment
	w.broker.With(id, func(l *standin.Log) {
		for range segments {
			made = append(made, l.Seal(w.t, batches, records, recordBytes))
		}
	})
	return made
}

// exported waits until all that is sealed is covered by a manifest.
func (w *world) exported(id partition.ID) {
	w.t.Helper()
	w.broker.WaitFor(id, "exported", func(l *standin.Log) bool { return l.ExportedEnd == l.End() && l.ExportedVersion == l.Version })
}

// runningTierer is a tierer that runs until its stop, or the test's end.
type runningTierer struct {
	*tierer.Tierer

	registry *prometheus.Registry
	stop     func() error
}

// start starts a tierer; the test fails if it ends with an error before it is stopped.
func (w *world) start(name string) *runningTierer {
	w.t.Helper()
	cfg := tierer.Defaults()
	cfg.NodeID, cfg.CapnpHost, cfg.HTTPHost, cfg.AdminHost = name, name+":0", name+":0", ""
	r := &runningTierer{registry: prometheus.NewRegistry()}
	var err error
	r.Tierer, err = tierer.New(w.t.Context(), cfg, tierer.Deps{Bucket: w.bucket, Deps: node.Deps{
		Clock: clock.Real(), Network: w.network.At(name), Store: w.store, Metrics: r.registry,
		Log:     slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: "test",
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	w.t.Cleanup(func() {
		if err := r.stop(); err != nil {
			w.t.Errorf("%s: %v", name, err)
		}
		if w.t.Failed() {
			w.t.Logf("log:\n%s", w.log)
		}
	})
	return r
}

// eventually waits until something is so.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	for tick := time.NewTicker(time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			w.t.Fatalf("not %s after %v", what, patience)
		}
	}
}

func (w *world) ready(r *runningTierer) {
	w.t.Helper()
	w.eventually("ready", func() bool { return r.Ready() == nil })
}

// count gives a metric, summed over its labels.
func (r *runningTierer) count(t *testing.T, name string) float64 {
	t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, m := range family.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

// objects gives the keys in the bucket with a prefix.
func (w *world) objects(prefix string) []string {
	w.t.Helper()
	infos, err := w.inside.List(w.t.Context(), prefix, "", 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	var keys []string
	for _, info := range infos {
		keys = append(keys, info.Key)
	}
	return keys
}

func (w *world) segments(id partition.ID) []string {
	return w.objects(manifest.PartitionPrefix(w.cluster, id))
}

func (w *world) object(key string) []byte {
	w.t.Helper()
	body, _, err := w.inside.Get(w.t.Context(), key, 0, -1)
	if err != nil {
		w.t.Fatal(err)
	}
	data, err := io.ReadAll(body)
	if err != nil {
		w.t.Fatal(err)
	}
	return data
}

// gateway is a connection to a tierer's data port.
type gateway struct {
	t *testing.T
	*frame.Client
}

func (w *world) gateway(r *runningTierer) gateway {
	w.t.Helper()
	conn, err := w.network.At("gateway").Dial(w.t.Context(), r.Addrs().Capnp)
	if err != nil {
		w.t.Fatal(err)
	}
	g := gateway{t: w.t, Client: frame.NewClient(conn, frame.ClientConfig{})}
	w.t.Cleanup(func() { _ = g.Close() })
	if _, err := g.Hello(w.t.Context(), frame.HelloParams{Role: wirecapnp.Role_gateway, ClusterID: w.cluster.String()}); err != nil {
		w.t.Fatal(err)
	}
	return g
}

// fetch reads once; the body is a copy.
func (g gateway) fetch(id partition.ID, offset partition.Offset, maxBytes uint32) (body []byte, next partition.Offset, err error) {
	g.t.Helper()
	reply, err := g.Call(g.t.Context(), func(request wirecapnp.Request) error {
		fetch, err := request.NewFetch()
		if err != nil {
			return err
		}
		fetch.SetPartition(uint32(id.Index))
		fetch.SetOffset(uint64(offset))
		fetch.SetMaxBytes(maxBytes)
		topic, err := fetch.NewTopic()
		if err != nil {
			return err
		}
		hi, lo := id.Topic.Halves()
		topic.SetHi(hi)
		topic.SetLo(lo)
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	defer reply.Release()
	answer, err := reply.Response.Fetch()
	if err != nil {
		return nil, 0, err
	}
	return bytes.Clone(reply.Body), partition.Offset(answer.NextOffset()), nil
}

// readAll reads [from, to) and gives the bytes.
func (g gateway) readAll(id partition.ID, from, to partition.Offset, maxBytes uint32) []byte {
	g.t.Helper()
	var all []byte
	for from < to {
		body, next, err := g.fetch(id, from, maxBytes)
		if err != nil {
			g.t.Fatalf("fetch at %d: %v", from, err)
		}
		if next <= from || len(body) == 0 {
			g.t.Fatalf("fetch at %d gives %d bytes and goes on at %d", from, len(body), next)
		}
		all = append(all, body...)
		from = next
	}
	return all
}

// offsetAt asks for the offset of a time.
func (g gateway) offsetAt(id partition.ID, micros int64) (offset, end partition.Offset) {
	g.t.Helper()
	reply, err := g.Call(g.t.Context(), func(request wirecapnp.Request) error {
		list, err := request.NewListOffsets()
		if err != nil {
			return err
		}
		list.SetPartition(uint32(id.Index))
		list.SetTime(micros)
		topic, err := list.NewTopic()
		if err != nil {
			return err
		}
		hi, lo := id.Topic.Halves()
		topic.SetHi(hi)
		topic.SetLo(lo)
		return nil
	})
	if err != nil {
		g.t.Fatal(err)
	}
	defer reply.Release()
	answer, err := reply.Response.ListOffsets()
	if err != nil {
		g.t.Fatal(err)
	}
	return partition.Offset(answer.Offset()), partition.Offset(answer.HighWatermark())
}

type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

var _ fmt.Stringer = (*logBuffer)(nil)
