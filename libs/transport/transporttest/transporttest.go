package transporttest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/transport"
)

// Run tests the network that home gives, a fresh one for each part.
func Run(t *testing.T, home func(t *testing.T) transport.Network) {
	t.Helper()
	for name, test := range map[string]func(*testing.T, transport.Network){
		"Echo":               testEcho,
		"Large":              testLarge,
		"HalfClose":          testHalfClose,
		"CloseDelivers":      testCloseDelivers,
		"ReadDeadline":       testReadDeadline,
		"WriteDeadline":      testWriteDeadline,
		"DeadlineInterrupts": testDeadlineInterrupts,
		"CloseInterrupts":    testCloseInterrupts,
		"WriteToClosed":      testWriteToClosed,
		"Refused":            testRefused,
		"DialInEndedContext": testDialInEndedContext,
		"Ports":              testPorts,
		"ListenerClose":      testListenerClose,
		"ManyAtOnce":         testManyAtOnce,
	} {
		t.Run(name, func(t *testing.T) { test(t, home(t)) })
	}
}

func listen(t *testing.T, n transport.Network) net.Listener {
	t.Helper()
	l, err := n.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// connect gives both ends of a connection.
func connect(t *testing.T, n transport.Network) (near, far net.Conn) {
	t.Helper()
	l := listen(t, n)
	accepted := accept(l)
	near, err := n.Dial(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close() })
	got := <-accepted
	if got.err != nil {
		t.Fatal(got.err)
	}
	t.Cleanup(func() { _ = got.conn.Close() })
	return near, got.conn
}

type result struct {
	conn net.Conn
	err  error
}

func accept(l net.Listener) <-chan result {
	out := make(chan result, 1)
	go func() {
		conn, err := l.Accept()
		out <- result{conn, err}
	}()
	return out
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testEcho(t *testing.T, n transport.Network) {
	near, far := connect(t, n)
	if near.LocalAddr().String() != far.RemoteAddr().String() || near.RemoteAddr().String() != far.LocalAddr().String() {
		t.Errorf("addresses %v→%v and %v→%v", near.LocalAddr(), near.RemoteAddr(), far.LocalAddr(), far.RemoteAddr())
	}
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		for _, text := range []string{"one", "two"} {
			_, err := way[0].Write([]byte(text))
			must(t, err)
			got := make([]byte, len(text))
			_, err = io.ReadFull(way[1], got)
			must(t, err)
			if string(got) != text {
				t.Errorf("got %q, want %q", got, text)
			}
		}
	}
}

// testLarge sends far more than any buffer in both directions at once.
func testLarge(t *testing.T, n transport.Network) {
	near, far := connect(t, n)
	payload := make([]byte, 3<<20)
	for i := range payload {
		payload[i] = byte(i * i >> 7)
	}
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		wg.Go(func() {
			if n, err := way[0].Write(payload); n != len(payload) || err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
		})
		wg.Go(func() {
			got := make([]byte, len(payload))
			if _, err := io.ReadFull(way[1], got); err != nil || !bytes.Equal(got, payload) {
				t.Errorf("read something else: %v", err)
			}
		})
	}
	wg.Wait()
}

func testHalfClose(t *testing.T, n transport.Network) {
	near, far := connect(t, n)
	half, ok := near.(interface{ CloseWrite() error })
	if !ok {
		t.Fatal("no CloseWrite")
	}
	_, err := near.Write([]byte("question"))
	must(t, err)
	must(t, half.CloseWrite())
	got, err := io.ReadAll(far)
	must(t, err)
	_, err = far.Write([]byte("answer to " + string(got)))
	must(t, err)
	must(t, far.Close())
	answer, err := io.ReadAll(near)
	must(t, err)
	if string(answer) != "answer to question" {
		t.Errorf("got %q", answer)
	}
	if _, err := near.Write([]byte("more")); err == nil {
		t.Error("wrote after CloseWrite")
	}
}

func testCloseDelivers(t *testing.T, n transport.Network) {
	near, far := connect(t, n)
	_, err := near.Write([]byte("last words"))
	must(t, err)
	must(t, near.Close())
	got, err := io.ReadAll(far)
	if string(got) != "last words" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v", err)
	}
	if _, err := near.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write after Close: %v", err)
	}
	if near.Close() == nil {
		t.Error("second Close succeeded")
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout() && errors.Is(err, os.ErrDeadlineExceeded)
}

func testReadDeadline(t *testing.T, n transport.Network) {
	near, far := connect(t, n)
	must(t, near.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	if _, err := near.Read(make([]byte, 1)); !isTimeout(err) {
		t.Fatalf("got %v", err)
	}
	_, err := far.Write([]byte("x"))
	must(t, err)
	if _, err := near.Read(make([]byte, 1)); !isTimeout(err) {
		t.Fatalf("still past the deadline: %v", err)
	}
	must(t, near.SetReadDeadline(time.Time{}))
	if _, err := near.Read(make([]byte, 1)); err != nil {
		t.Errorf("after the deadline is lifted: %v", err)
	}
}

func testWriteDeadline(t *testing.T, n transport.Network) {
	near, _ := connect(t, n)
	must(t, near.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
	var err error
	total := 0
	for block := make([]byte, 64<<10); err == nil && total < 64<<20; {
		var k int
		k, err = near.Write(block)
		total += k
	}
	if !isTimeout(err) {
		t.Errorf("after %d bytes that nobody reads: %v", total, err)
	}
}

func testDeadlineInterrupts(t *testing.T, n transport.Network) {
	near, _ := connect(t, n)
	failed := make(chan error, 1)
	go func() {
		_, err := near.Read(make([]byte, 1))
		failed <- err
	}()
	must(t, near.SetDeadline(time.Unix(1, 0)))
	if err := <-failed; !isTimeout(err) {
		t.Errorf("got %v", err)
	}
}

func testCloseInterrupts(t *testing.T, n transport.Network) {
	near, _ := connect(t, n)
	failed := make(chan error, 2)
	go func() {
		_, err := near.Read(make([]byte, 1))
		failed <- err
	}()
	go func() {
		_, err := near.Write(make([]byte, 64<<20))
		failed <- err
	}()
	must(t, near.Close())
	for range 2 {
		if err := <-failed; !errors.Is(err, net.ErrClosed) {
			t.Errorf("got %v", err)
		}
	}
}

// testWriteToClosed: the peer's end is an error sooner or later, as in TCP, where the first writes may still seem to succeed.
func testWriteToClosed(t *testing.T, n transport.Network) {
	near, far := connect(t, n)
	must(t, far.Close())
	if _, err := near.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // io.Reader promises the bare io.EOF
		t.Errorf("read: %v", err)
	}
	must(t, near.SetWriteDeadline(time.Now().Add(10*time.Second)))
	for {
		if _, err := near.Write([]byte("x")); err != nil {
			if isTimeout(err) {
				t.Error("no write failed")
			}
			return
		}
	}
}

func testRefused(t *testing.T, n transport.Network) {
	l := listen(t, n)
	must(t, l.Close())
	_, err := n.Dial(t.Context(), l.Addr().String())
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
	if _, ok := errors.AsType[*net.OpError](err); !ok {
		t.Errorf("%T is no *net.OpError", err)
	}
	for _, bad := range []string{"nohost", "127.0.0.1:port", "127.0.0.1:70000"} {
		if _, err := n.Dial(t.Context(), bad); err == nil {
			t.Errorf("dialed %q", bad)
		}
		if _, err := n.Listen(t.Context(), bad); err == nil {
			t.Errorf("listens on %q", bad)
		}
	}
}

func testDialInEndedContext(t *testing.T, n transport.Network) {
	l := listen(t, n)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := n.Dial(ctx, l.Addr().String()); err == nil {
		t.Error("dialed in an ended context")
	}
}

func testPorts(t *testing.T, n transport.Network) {
	a, b := listen(t, n), listen(t, n)
	if a.Addr().String() == b.Addr().String() {
		t.Errorf("both at %v", a.Addr())
	}
	if _, err := n.Listen(t.Context(), a.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listen where somebody does: %v", err)
	}
	must(t, a.Close())
	again, err := n.Listen(t.Context(), a.Addr().String())
	must(t, err)
	must(t, again.Close())
}

func testListenerClose(t *testing.T, n transport.Network) {
	l := listen(t, n)
	accepted := accept(l)
	must(t, l.Close())
	if got := <-accepted; !errors.Is(got.err, net.ErrClosed) {
		t.Errorf("a waiting Accept: %v", got.err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a later Accept: %v", err)
	}
	if l.Close() == nil {
		t.Error("second Close succeeded")
	}
}

func testManyAtOnce(t *testing.T, n transport.Network) {
	l := listen(t, n)
	const count = 50
	var wg sync.WaitGroup
	wg.Go(func() {
		for range count {
			conn, err := l.Accept()
			if err != nil {
				t.Error(err)
				return
			}
			wg.Go(func() {
				defer func() { _ = conn.Close() }()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	for i := range count {
		wg.Go(func() {
			conn, err := n.Dial(t.Context(), l.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close() }()
			want := bytes.Repeat([]byte{byte(i)}, 1000)
			got := make([]byte, len(want))
			if _, err := conn.Write(want); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
				t.Errorf("connection %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}
