package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/tests/cluster"
)

const (
	writers = 4
	// acksBetween kills.
	acksBetween = 150
	// sendTimeout is far above what a kill and restart take.
	sendTimeout = 30 * time.Second
)

// history is what the writers were told.
type history struct {
	sync.Mutex
	acked map[string]int64 // value → offset
	sent  map[string]bool
	count atomic.Int64 // of acked
}

// TestKillWhilePublishing kills processes under load: what was acknowledged is there once, at its offset, in each writer's order.
func TestKillWhilePublishing(t *testing.T) {
	eachShape(t, func(t *testing.T, c *cluster.Cluster) {
		c.MustSQ(t, "topic", "create", "orders", "--segment-bytes", "64KiB")
		client, err := sq.Open(t.Context(), c.DataAddr)
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		h := &history{acked: map[string]int64{}, sent: map[string]bool{}}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		producer := client.Producer("orders")
		for w := range writers {
			wg.Go(func() { h.write(t, producer, w, stop) })
		}
		for _, name := range []string{"broker", "gateway", "broker", "coordinator", "tierer", "broker"} {
			h.await(t, acksBetween)
			c.Kill(name)
			c.Restart(t, name)
		}
		h.await(t, acksBetween)
		close(stop)
		wg.Wait()
		h.check(t, client)
	})
}

func (h *history) write(t *testing.T, producer *sq.Producer, writer int, stop <-chan struct{}) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		value := fmt.Sprintf("%d-%06d", writer, i)
		h.Lock()
		h.sent[value] = true
		h.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), sendTimeout)
		ack, err := producer.Send(ctx, sq.Record{Value: []byte(value)})
		cancel()
		if errors.Is(err, sq.ErrOutcomeUnknown) {
			continue // perhaps there, at most once
		}
		if err != nil {
			t.Errorf("send %s: %v", value, err)
			return
		}
		h.Lock()
		h.acked[value] = ack.Offset
		h.Unlock()
		h.count.Add(1)
	}
}

// await returns when n more were acknowledged.
func (h *history) await(t *testing.T, n int64) {
	t.Helper()
	from := h.count.Load()
	eventually(t, 2*sendTimeout, func() bool { return h.count.Load() >= from+n }, func() any { return h.count.Load() })
}

func (h *history) check(t *testing.T, client *sq.Client) {
	t.Helper()
	offsets := map[string]int64{}
	last := map[byte]string{}
	for r, err := range client.Read(t.Context(), "orders", sq.From(sq.Earliest), sq.Until(sq.Latest)) {
		if err != nil {
			t.Fatal(err)
		}
		value := string(r.Value)
		if !h.sent[value] {
			t.Errorf("%q at offset %d was never sent", value, r.Offset)
			continue
		}
		if before, twice := offsets[value]; twice {
			t.Errorf("%s is at offsets %d and %d", value, before, r.Offset)
		}
		offsets[value] = r.Offset
		if writer := value[0]; value < last[writer] {
			t.Errorf("%s comes after %s", value, last[writer])
		} else {
			last[writer] = value
		}
	}
	for value, offset := range h.acked {
		if got, there := offsets[value]; !there || got != offset {
			t.Errorf("%s was acknowledged at offset %d and is at %d (there: %v)", value, offset, got, there)
		}
	}
	t.Logf("%d sent, %d acknowledged, %d read", len(h.sent), len(h.acked), len(offsets))
}
