package sq_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
)

// gateways are the ways to one server, each of which may go. What a client had written to one that goes may still arrive, much later than what
// it then sends through another.
type gateways struct {
	server  string
	pumping sync.WaitGroup
	mu      sync.Mutex
	conns   map[string][]*way
	used    map[string]int // connections made, by address
}

// way is a connection through a gateway.
type way struct {
	client, server net.Conn
	gone           chan struct{} // closed when the gateway goes
	late           time.Duration // how long after that what it has is handed on
}

func (g *gateways) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	server, err := new(net.Dialer).DialContext(ctx, network, g.server)
	if err != nil {
		return nil, err
	}
	client, inner := net.Pipe()
	w := &way{client: inner, server: server, gone: make(chan struct{})}
	g.mu.Lock()
	g.conns[addr] = append(g.conns[addr], w)
	g.used[addr]++
	g.mu.Unlock()
	g.pumping.Go(func() {
		_, _ = io.Copy(inner, server)
		_ = inner.Close()
	})
	g.pumping.Go(w.forward)
	return client, nil
}

// forward hands on what the client writes; once the gateway is gone, late.
func (w *way) forward() {
	defer func() { _ = w.server.Close() }()
	buf := make([]byte, 1<<16)
	for {
		n, err := w.client.Read(buf)
		select {
		case <-w.gone:
			time.Sleep(w.late)
			_, _ = w.server.Write(buf[:n])
			_ = w.client.Close()
			time.Sleep(w.late) // the server reads it
			return
		default:
		}
		if _, failed := w.server.Write(buf[:n]); err != nil || failed != nil {
			_ = w.client.Close()
			return
		}
	}
}

// tried tells whether each of the gateways has gone and come a few times.
func (g *gateways) tried(addrs []string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, addr := range addrs {
		if g.used[addr] < 5 {
			return false
		}
	}
	return true
}

// lose has a gateway go; later dials find it anew.
func (g *gateways) lose(addr string, late time.Duration) {
	g.mu.Lock()
	lost := g.conns[addr]
	g.conns[addr] = nil
	g.mu.Unlock()
	for _, w := range lost {
		w.late = late
		close(w.gone)
		time.AfterFunc(late/2, func() { _ = w.client.Close() }) // the client hears of it before what it wrote arrives
	}
}

// The session of a producer is kept over gateways that go and come: each record is stored once, at the offset of its ack, in order, and nobody
// is told anything but that.
func TestSessionIsKeptAcrossGateways(t *testing.T) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { acrossGateways(t, seed) })
	}
}

func acrossGateways(t *testing.T, seed uint64) {
	const senders, each = 4, 400
	ctx, server, _ := setUp(t)
	server.CreateTopic("orders", 2)
	g := &gateways{server: server.Addr(), conns: map[string][]*way{}, used: map[string]int{}}
	addrs := []string{"gateway-1:6064", "gateway-2:6064", "gateway-3:6064"}
	c, err := sq.Open(ctx, addrs[0]+","+addrs[1]+","+addrs[2], sq.Dialer(g.dial), sq.Backoff(time.Millisecond, 4*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer g.pumping.Wait()
	defer func() { _ = c.Close() }()
	p := c.Producer("orders", sq.BatchBytes(600), sq.Linger(0))
	var mu sync.Mutex
	acks := map[string]sq.Ack{}
	note := func(v string, ack sq.Ack, err error) {
		mu.Lock()
		defer mu.Unlock()
		if acks[v] = ack; err != nil {
			t.Errorf("%s: %v", v, err)
		}
	}
	done := make(chan struct{})
	var sent atomic.Int64
	var sending, losing sync.WaitGroup
	for s := range senders {
		sending.Go(func() {
			for i := 0; i < each || !g.tried(addrs); i++ {
				v := fmt.Sprintf("%d-%d", s, i)
				sent.Add(1)
				r := sq.Record{Value: []byte(v)}
				if s%2 == 0 && i < each { // behind that, one at a time until enough gateways have gone
					p.Go(r, func(ack sq.Ack, err error) { note(v, ack, err) }, sq.ToPartition(s%2))
					continue
				}
				ack, err := p.Send(ctx, r, sq.ToPartition(s%2))
				note(v, ack, err)
			}
		})
	}
	losing.Go(func() {
		rng := rand.New(rand.NewPCG(seed, 3))
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Duration(rng.IntN(int(3 * time.Millisecond)))):
				g.lose(addrs[rng.IntN(len(addrs))], time.Duration(1+rng.IntN(20))*time.Millisecond)
			}
		}
	})
	sending.Wait()
	if err := p.Flush(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(done)
	losing.Wait()
	times, stored := map[string]int{}, server.Values("orders")
	for _, values := range stored {
		for _, v := range values {
			times[v]++
		}
	}
	for v, ack := range acks {
		if times[v] != 1 || ack.Offset >= 0 && stored[ack.Partition][ack.Offset] != v {
			t.Errorf("%s is acknowledged at %d/%d and stored %d times", v, ack.Partition, ack.Offset, times[v])
		}
	}
	if n := int(sent.Load()); len(acks) != n || len(times) != n {
		t.Errorf("%d of %d records are acknowledged, %d stored", len(acks), n, len(times))
	}
	checkOrder(t, stored, func(string) bool { return true })
	t.Logf("%d records, connections: %v", sent.Load(), g.used)
}
