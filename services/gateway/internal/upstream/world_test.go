package upstream

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster with a Caller.
type world struct {
	*standin.World
	cluster *Cluster
	caller  *Caller

	background sync.WaitGroup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: standin.NewWorld(t, 4)}
	w.cluster = New(Config{
		Router: route.NewRouter(w.Views, clock.Real()), Network: w.Net.At("gateway"), Clock: clock.Real(), Metrics: prometheus.NewRegistry(),
		Pool: frame.NewPool(), Limits: DefaultLimits(), Software: "sq-gateway/test",
	})
	w.caller = w.cluster.Caller(Client{ID: "test", Principal: "somebody"})
	t.Cleanup(w.caller.Close)
	return w
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
		Partition: w.ID(index), Body: standin.One(t, value, key), Repeatable: !key.IsZero(),
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
	for offset := partition.Offset(0); uint64(offset) < w.Logs[index].End(); {
		reply, _, err := w.caller.Fetch(ctx, Fetch{Partition: w.ID(index), Offset: offset})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, standin.Values(t, reply.Body)...)
		fetch, err := reply.Response.Fetch()
		if err != nil {
			t.Fatal(err)
		}
		offset = partition.Offset(fetch.NextOffset())
		reply.Release()
	}
	return all
}
