package data

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
)

// stuckConn is a client's connection that is not read any more once stuck is set.
type stuckConn struct {
	net.Conn
	stuck  atomic.Bool
	once   sync.Once
	closed chan struct{}
}

func (c *stuckConn) Read(p []byte) (int, error) {
	if c.stuck.Load() {
		<-c.closed
		return 0, net.ErrClosed
	}
	return c.Conn.Read(p)
}

func (c *stuckConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// A client that asks for much and takes nothing holds its share of memory, and nobody else up; in the end its connection goes.
func TestSlowClientSlowsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil) // 64 MiB, a share is 8 MiB
		for range 20 {
			w.Append(t, 0, strings.Repeat("x", 900<<10))
		}
		conn, err := w.Net.At("slow").Dial(t.Context(), addr)
		if err != nil {
			t.Fatal(err)
		}
		stuck := &stuckConn{Conn: conn, closed: make(chan struct{})}
		slow := frame.NewClient(stuck, frame.ClientConfig{})
		if _, err := slow.Hello(t.Context(), frame.HelloParams{}); err != nil {
			t.Fatal(err)
		}
		stuck.stuck.Store(true)
		for i := range 200 {
			if _, err := slow.Start(t.Context(), fetchFrom(w.ID(0), uint64(i%20), 0)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		used := w.gate.Bodies().(*frame.MemoryBudget).Used()
		if used == 0 || used > 8<<20 {
			t.Errorf("the slow client holds %d bytes", used)
		}
		quick := w.client(t)
		for i := range 20 {
			started := time.Now()
			reply, err := quick.Call(t.Context(), fetchFrom(w.ID(0), uint64(i), 0))
			if err != nil {
				t.Fatal(err)
			}
			if len(standin.Values(t, reply.Body)) == 0 || time.Since(started) > time.Second {
				t.Errorf("fetch %d took %s", i, time.Since(started))
			}
			reply.Release()
		}
		time.Sleep(2 * w.server.cfg.Limits.WriteTimeout)
		if left := w.gate.Bodies().(*frame.MemoryBudget).Used(); left != 0 {
			t.Errorf("%d bytes are still held", left)
		}
		_ = slow.Close()
		_ = quick.Close()
	})
}
