package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/libs/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	transporttest.Run(t, func(*testing.T) transport.Network { return memnet.New() })
}

func TestConformanceDripping(t *testing.T) {
	transporttest.Run(t, func(*testing.T) transport.Network {
		n := memnet.New()
		n.Drip("127.0.0.1", "127.0.0.1", 1000)
		return n
	})
}

// world has a connection from host a to host b.
type world struct {
	net  *memnet.Network
	addr string
	a, b net.Conn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{net: memnet.New()}
	l, err := w.net.At("b").Listen(t.Context(), ":7000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	if w.addr = l.Addr().String(); w.addr != "b:7000" {
		t.Fatalf("listens on %s", w.addr)
	}
	if w.a, err = w.net.At("a").Dial(t.Context(), w.addr); err != nil {
		t.Fatal(err)
	}
	if w.b, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	return w
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

// silent checks that nothing arrives for an hour.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Hour))
	if n, err := c.Read(make([]byte, 10)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
	_ = c.SetReadDeadline(time.Time{})
}

func TestCutAndHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.net.Cut("a", "b")
		write(t, w.a, "question")
		write(t, w.b, "news")
		silent(t, w.b)
		silent(t, w.a)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.net.At("a").Dial(ctx, w.addr); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial through a cut: %v", err)
		}
		if _, err := w.net.At("c").Dial(t.Context(), w.addr); err != nil {
			t.Errorf("dial from elsewhere: %v", err)
		}
		healed := make(chan error)
		go func() {
			_, err := w.net.At("a").Dial(t.Context(), w.addr)
			healed <- err
		}()
		synctest.Wait()
		w.net.Heal("a", "b")
		if err := <-healed; err != nil {
			t.Errorf("dial when healed: %v", err)
		}
		read(t, w.b, "question")
		read(t, w.a, "news")
	})
}

func TestCutOneWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.net.CutOneWay("a", "b")
		write(t, w.a, "lost for now")
		write(t, w.b, "heard")
		read(t, w.a, "heard")
		silent(t, w.b)
	})
}

func TestCutHidesClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.net.Cut("a", "b")
		_ = w.b.Close()
		silent(t, w.a)
		write(t, w.a, "to nobody")
		w.net.Heal("a", "b")
		if _, err := w.a.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // io.Reader promises the bare io.EOF
			t.Errorf("read when healed: %v", err)
		}
		if _, err := w.a.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write when healed: %v", err)
		}
	})
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		start := time.Now()
		w.net.Delay("a", "b", time.Second)
		write(t, w.a, "slow")
		w.net.Delay("a", "b", 0)
		write(t, w.a, "fast") // must not overtake
		_ = w.a.Close()
		read(t, w.b, "slowfast")
		if _, err := w.b.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // io.Reader promises the bare io.EOF
			t.Errorf("end: %v", err)
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("took %v", got)
		}
	})
}

func TestDrip(t *testing.T) {
	w := newWorld(t)
	w.net.Drip("a", "b", 3)
	write(t, w.a, "abcdefgh")
	for _, want := range []string{"abc", "def", "gh"} {
		got := make([]byte, 100)
		n, err := w.b.Read(got)
		if err != nil || string(got[:n]) != want {
			t.Errorf("read %q, %v; want %q", got[:n], err, want)
		}
	}
}

func TestReset(t *testing.T) {
	w := newWorld(t)
	write(t, w.a, "never read")
	failed := make(chan error)
	go func() {
		_, err := w.a.Read(make([]byte, 1))
		failed <- err
	}()
	w.net.Reset("b", "a")
	if err := <-failed; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a waiting read: %v", err)
	}
	if _, err := w.b.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other end: %v", err)
	}
	if _, err := w.b.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("write: %v", err)
	}
}

func TestListenerCloseResetsBacklog(t *testing.T) {
	n := memnet.New()
	l, err := n.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := n.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection nobody accepted: %v", err)
	}
}
