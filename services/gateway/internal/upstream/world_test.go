package upstream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster of two brokers, with one topic of four partitions that broker 1 leads.
type world struct {
	net     *memnet.Network
	views   *standin.Views
	brokers [3]*standin.Node // from 1
	topic   topology.Topic
	logs    [4]*standin.Log
	cluster *Cluster
	caller  *Caller

	background sync.WaitGroup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{net: memnet.New(), views: standin.NewViews()}
	w.topic = w.views.AddTopic("orders", len(w.logs))
	for id := 1; id <= 2; id++ {
		host := fmt.Sprintf("b%d", id)
		w.brokers[id] = standin.NewBroker(t, w.net.At(host), host+":6164")
		w.views.AddBroker(partition.NodeID(id), w.brokers[id].Addr)
	}
	for i := range w.logs {
		w.logs[i] = standin.NewLog()
		w.lead(i, 1)
	}
	w.cluster = New(Config{
		Router: route.NewRouter(w.views), Network: w.net.At("gateway"), Clock: clock.Real(), Metrics: prometheus.NewRegistry(),
		Pool: frame.NewPool(), Limits: DefaultLimits(), Software: "sq-gateway/test",
	})
	w.caller = w.cluster.Caller(Client{ID: "test", Principal: "somebody"})
	t.Cleanup(w.caller.Close)
	return w
}

func (w *world) id(index int) partition.ID {
	return partition.ID{Topic: w.topic.ID, Index: partition.Index(index)}
}

// lead makes a broker serve and lead a partition.
func (w *world) lead(index int, broker partition.NodeID) {
	w.brokers[broker].Serve(w.id(index), w.logs[index])
	w.views.Lead(w.id(index), broker)
}

// one builds a batch of one record.
func one(t testing.TB, value string, key batch.Key128) []byte {
	t.Helper()
	var b batch.Builder
	if err := b.Add(batch.Record{Value: []byte(value), Timestamp: 1}); err != nil {
		t.Fatal(err)
	}
	msg, err := b.Build(nil, batch.BuildOptions{DedupeKey: key})
	if err != nil {
		t.Fatal(err)
	}
	return msg
}

// result of a publish.
type result struct {
	offset uint64
	err    error
}

// publish submits and gives where the result will be. It fails the test if Free is called before Done, or twice.
func (w *world) publish(ctx context.Context, t testing.TB, index int, value string, key batch.Key128) <-chan result {
	t.Helper()
	results := make(chan result, 1)
	done, freed := make(chan struct{}), make(chan struct{})
	w.caller.Submit(ctx, Publish{
		Partition: w.id(index), Body: one(t, value, key), Repeatable: !key.IsZero(),
		Done: func(reply *frame.Reply, err error) {
			var r result
			if r.err = err; err == nil {
				publish, err := reply.Response.Publish()
				r = result{publish.BaseOffset(), err}
				reply.Release()
			}
			close(done)
			results <- r
		},
		Free: func() {
			select {
			case <-done:
			default:
				t.Error("the body was freed before the answer")
			}
			close(freed) // a second time panics
		},
	})
	return results
}

// values reads a log through a caller.
func (w *world) values(t testing.TB, index int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	all := []string{}
	for offset := partition.Offset(0); uint64(offset) < w.logs[index].End(); {
		reply, _, err := w.caller.Fetch(ctx, Fetch{Partition: w.id(index), Offset: offset})
		if err != nil {
			t.Fatal(err)
		}
		for msg, err := range batch.Each(reply.Body) {
			if err != nil {
				t.Fatal(err)
			}
			var r batch.Reader
			if err := r.Reset(msg); err != nil {
				t.Fatal(err)
			}
			var rec batch.Record
			for i := range r.Len() {
				r.Record(i, &rec)
				all = append(all, string(rec.Value))
			}
		}
		fetch, err := reply.Response.Fetch()
		if err != nil {
			t.Fatal(err)
		}
		offset = partition.Offset(fetch.NextOffset())
		reply.Release()
	}
	return all
}
