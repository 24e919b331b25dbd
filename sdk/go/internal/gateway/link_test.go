package gateway_test

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newLink(t *testing.T, addrs ...string) *gateway.Link {
	t.Helper()
	l := gateway.NewLink(gateway.Config{
		Addrs: addrs, Dial: (&net.Dialer{}).DialContext, Hello: frame.HelloParams{Role: wirecapnp.Role_client}, Pool: frame.NewPool(),
		Log: slog.New(slog.DiscardHandler), AnswerTimeout: time.Second,
	})
	t.Cleanup(l.Close)
	return l
}

// A connection that did not answer in time is given up, unless it was the caller who had no more time.
func TestJudge(t *testing.T) {
	server := sqtest.Start(t)
	server.Inject(sqtest.InitProducer, sqtest.Hang(), -1)
	l := newLink(t, server.Addr())
	conn, err := l.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = gateway.InitProducer(short, conn)
	if l.Judge(short, conn, err); conn.Err() != nil {
		t.Error("given up, though the caller's time was over")
	}
	if again, err := l.Get(t.Context()); err != nil || again != conn {
		t.Errorf("another connection: %v", err)
	}
	if l.Judge(t.Context(), conn, err); conn.Err() == nil {
		t.Error("kept, though it did not answer")
	}
	if again, err := l.Get(t.Context()); err != nil || again == conn {
		t.Errorf("no other connection: %v", err)
	}
}

// Who asks while a dial goes on waits for it: one connection comes of it.
func TestOneDialForAll(t *testing.T) {
	server := sqtest.Start(t)
	l := newLink(t, server.Addr())
	conns := make(chan *frame.Client)
	for range 20 {
		go func() {
			conn, err := l.Get(t.Context())
			if err != nil {
				t.Error(err)
			}
			conns <- conn
		}()
	}
	first := <-conns
	for range 19 {
		if conn := <-conns; conn != first {
			t.Error("more than one connection")
		}
	}
}

// A key belongs to the last range that begins at or below its hash, whatever the order of the partitions.
func TestOfHash(t *testing.T) {
	server := sqtest.Start(t)
	server.CreateTopic("orders", 4)
	l := newLink(t, server.Addr())
	conn, err := l.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	topic, err := gateway.Metadata(t.Context(), conn, gateway.Name{Namespace: "default", Name: "orders"}, false)
	if err != nil {
		t.Fatal(err)
	}
	for hash, want := range map[uint64]int{0: 0, 1<<62 - 1: 0, 1 << 62: 1, 1<<63 - 1: 1, 1 << 63: 2, ^uint64(0): 3} {
		if got := topic.OfHash(hash); got != want {
			t.Errorf("%#x belongs to %d, not %d", hash, want, got)
		}
	}
}
