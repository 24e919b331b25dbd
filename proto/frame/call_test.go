package frame_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Bodies of every size class come back as they went, from many goroutines over one connection, and every answer finds its call.
func TestCallsFromManyGoroutines(t *testing.T) {
	budget := frame.NewBudget(64 << 20)
	_, addr := serve(t, frame.ServerConfig{Budget: budget})
	client := dial(t, addr, frame.ClientConfig{MaxInFlight: 8, Budget: budget})
	sizes := []int{0, 1, 100, 512, 513, 16 << 10, 64<<10 - 1, 64 << 10, 64<<10 + 1, 300 << 10, 1 << 20, 3<<20 + 7}
	var calls sync.WaitGroup
	for i, size := range sizes {
		calls.Go(func() {
			body := bytes.Repeat([]byte{byte(i + 1)}, size)
			for n := range 5 {
				offset := uint64(i*100 + n)
				reply, err := client.Call(t.Context(), publish(offset), body[:size/2], body[size/2:])
				if err != nil {
					t.Errorf("call with %d bytes: %v", size, err)
					return
				}
				out, err := reply.Response.Publish()
				if err != nil || out.BaseOffset() != offset || !bytes.Equal(reply.Body, body) {
					t.Errorf("call with %d bytes: answer %d with %d bytes, %v", size, out.BaseOffset(), len(reply.Body), err)
				}
				reply.Release()
			}
		})
	}
	calls.Wait()
	if n := client.InFlight(); n != 0 {
		t.Errorf("%d calls are left in flight", n)
	}
	waitFor(t, "the budget is given back", func() bool { return budget.Used() == 0 })
}

// Requests reach the handler in the order of Start; answers may come in any order.
func TestOrder(t *testing.T) {
	const n = 50
	var held []*frame.Request
	_, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		if in, _ := req.Message.Publish(); in.Epoch() != uint64(len(held)) {
			t.Errorf("request %d came at place %d", in.Epoch(), len(held))
		}
		if held = append(held, req); len(held) < n {
			return
		}
		for i := len(held) - 1; i >= 0; i-- {
			echo(ctx, held[i])
		}
	})})
	client := dial(t, addr, frame.ClientConfig{})
	var pending []*frame.Pending
	for i := range uint64(n) {
		p, err := client.Start(t.Context(), publish(i), []byte("body"))
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	for i, p := range pending {
		reply, err := p.Wait(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if out, _ := reply.Response.Publish(); out.BaseOffset() != uint64(i) || string(reply.Body) != "body" {
			t.Errorf("call %d got the answer of %d with %q", i, out.BaseOffset(), reply.Body)
		}
		reply.Release()
	}
}

// section is a Body that is not in memory, as a part of a file is.
type section struct {
	content string
	closed  chan struct{}
}

func (s section) Len() int { return len(s.content) }
func (s section) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, s.content)
	return int64(n), err
}

func (s section) Close() error {
	close(s.closed)
	return nil
}

// A body that writes itself stands between the messages around it, and is closed once.
func TestBodyThatWritesItself(t *testing.T) {
	closed := make(chan struct{})
	_, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		if in, _ := req.Message.Publish(); in.Epoch() == 1 {
			_ = req.Reply(published(1), section{"from a file", closed})
			return
		}
		echo(ctx, req)
	})})
	client := dial(t, addr, frame.ClientConfig{})
	var pending []*frame.Pending
	for i := range uint64(3) {
		p, err := client.Start(t.Context(), publish(i), fmt.Appendf(nil, "body %d", i))
		if err != nil {
			t.Fatal(err)
		}
		pending = append(pending, p)
	}
	for i, want := range []string{"body 0", "from a file", "body 2"} {
		reply, err := pending[i].Wait(t.Context())
		if err != nil || string(reply.Body) != want {
			t.Fatalf("answer %d is %v, %v; want %q", i, reply, err, want)
		}
		reply.Release()
	}
	<-closed
}

// A request's body may write itself too. It is closed once, whether it was sent, too large, or the connection has ended.
func TestRequestBodyThatWritesItself(t *testing.T) {
	_, addr := serve(t, frame.ServerConfig{MaxBodyBytes: 100})
	client := dial(t, addr, frame.ClientConfig{})
	body := section{"from a file", make(chan struct{})}
	p, err := client.StartBody(t.Context(), publish(1), body)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := p.Wait(t.Context())
	if err != nil || string(reply.Body) != "from a file" {
		t.Fatalf("answer is %v, %v", reply, err)
	}
	reply.Release()
	<-body.closed
	large := section{strings.Repeat("x", 101), make(chan struct{})}
	_, err = client.StartBody(t.Context(), publish(1), large)
	wantKind(t, err, wirecapnp.ErrorKind_tooLarge)
	<-large.closed
	_ = client.Close()
	late := section{"late", make(chan struct{})}
	if _, err = client.StartBody(t.Context(), publish(1), late); err == nil {
		t.Error("a call was started on a closed connection")
	}
	<-late.closed
}

// A session can have a budget of its own: what fills the others' does not touch it.
func TestBudgetOf(t *testing.T) {
	own, others := frame.NewBudget(1000), frame.NewBudget(1)
	_, addr := serve(t, frame.ServerConfig{Budget: others, BudgetOf: func(hello frame.HelloInfo) frame.Budget {
		if hello.Role == wirecapnp.Role_broker {
			return own
		}
		return others
	}})
	for _, role := range []wirecapnp.Role{wirecapnp.Role_broker, wirecapnp.Role_gateway} {
		client := frame.NewClient(dialRaw(t, addr), frame.ClientConfig{})
		t.Cleanup(func() { _ = client.Close() })
		if _, err := client.Hello(t.Context(), frame.HelloParams{Role: role}); err != nil {
			t.Fatal(err)
		}
		reply, err := client.Call(t.Context(), publish(1), []byte("body"))
		if role == wirecapnp.Role_gateway {
			wantKind(t, err, wirecapnp.ErrorKind_overloaded)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		reply.Release()
	}
}

// The deadline and the trace of the caller reach the handler, and its context ends with the deadline.
func TestContextTravels(t *testing.T) {
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2, 15: 9}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled})
	_, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		if got := trace.SpanContextFromContext(ctx); !got.Equal(span.WithRemote(true)) {
			t.Errorf("handler got the span %v, want %v", got, span)
		}
		go func() {
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_deadlineExceeded, "%v", ctx.Err()))
		}()
	})})
	client := dial(t, addr, frame.ClientConfig{})
	ctx, cancel := context.WithTimeout(trace.ContextWithSpanContext(t.Context(), span), 30*time.Millisecond)
	defer cancel()
	p, err := client.Start(ctx, publish(0))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Wait(t.Context())
	if remote := wantKind(t, err, wirecapnp.ErrorKind_deadlineExceeded); remote.Text != context.DeadlineExceeded.Error() {
		t.Errorf("handler's context ended with %q", remote.Text)
	}
}

// An answered error keeps its details.
func TestAnsweredError(t *testing.T) {
	want := frame.RemoteError{Kind: wirecapnp.ErrorKind_offsetTiered, Text: "below", RetryAfter: 1500 * time.Millisecond, Offset: 42, Epoch: 3}
	_, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(_ context.Context, req *frame.Request) {
		if err := req.Fail(&want); err != nil {
			t.Errorf("fail: %v", err)
		}
		if err := req.Fail(&want); !errors.Is(err, frame.ErrAnswered) {
			t.Errorf("second answer gave %v", err)
		}
	})})
	_, err := dial(t, addr, frame.ClientConfig{}).Call(t.Context(), publish(0), []byte("x"))
	if got := wantKind(t, err, want.Kind); *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
}

// A panic of the handler is answered, ends its connection and leaves the others alone (invariant 2).
func TestPanicCostsOneConnection(t *testing.T) {
	server, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		if len(req.Body) == 0 {
			panic("no body")
		}
		echo(ctx, req)
	})})
	bad, good := dial(t, addr, frame.ClientConfig{}), dial(t, addr, frame.ClientConfig{})
	_, err := bad.Call(t.Context(), publish(0))
	wantKind(t, err, wirecapnp.ErrorKind_internal)
	<-bad.Done()
	if _, err := good.Call(t.Context(), publish(0), []byte("x")); err != nil {
		t.Errorf("the other connection: %v", err)
	}
	if n := server.Stats().Panics; n != 1 {
		t.Errorf("%d panics counted", n)
	}
}

// Over the budget the body is read over and Overloaded answered with a hint; the connection goes on, and nothing stays reserved.
func TestOverBudget(t *testing.T) {
	budget := frame.NewBudget(100 << 10)
	server, addr := serve(t, frame.ServerConfig{Budget: budget})
	client := dial(t, addr, frame.ClientConfig{})
	_, err := client.Call(t.Context(), publish(0), make([]byte, 1<<20))
	if remote := wantKind(t, err, wirecapnp.ErrorKind_overloaded); remote.RetryAfter <= 0 {
		t.Error("no retry hint")
	}
	if _, err := client.Call(t.Context(), publish(0), make([]byte, 50<<10)); err != nil {
		t.Errorf("call behind it: %v", err)
	}
	waitFor(t, "the budget is given back", func() bool { return budget.Used() == 0 })
	if n := server.Stats().OverBudget; n != 1 {
		t.Errorf("%d refusals counted", n)
	}
}

// An answer that has no room at the caller fails that call alone.
func TestAnswerOverBudget(t *testing.T) {
	_, addr := serve(t, frame.ServerConfig{})
	client := dial(t, addr, frame.ClientConfig{Budget: frame.NewBudget(1000), BodyTimeout: 20 * time.Millisecond})
	if _, err := client.Call(t.Context(), publish(0), make([]byte, 2000)); !errors.Is(err, frame.ErrOverBudget) {
		t.Errorf("got %v, want ErrOverBudget", err)
	}
	if _, err := client.Call(t.Context(), publish(0), make([]byte, 900)); err != nil {
		t.Errorf("call behind it: %v", err)
	}
}

// A body beyond the limit is refused where it is made, and by the server for a client that does not care.
func TestBodyTooLarge(t *testing.T) {
	_, addr := serve(t, frame.ServerConfig{MaxBodyBytes: 1000})
	_, err := dial(t, addr, frame.ClientConfig{}).Call(t.Context(), publish(0), make([]byte, 1001))
	wantKind(t, err, wirecapnp.ErrorKind_tooLarge)
	careless := frame.NewClient(dialRaw(t, addr), frame.ClientConfig{})
	defer careless.Close()
	helloRaw(t, careless)
	_, err = careless.Call(t.Context(), publish(0), make([]byte, 1001))
	wantKind(t, err, wirecapnp.ErrorKind_tooLarge)
	if _, err := careless.Call(t.Context(), publish(0), make([]byte, 1000)); err != nil {
		t.Errorf("call behind it: %v", err)
	}
}

// helloRaw says Hello without taking over the server's limits.
func helloRaw(t *testing.T, client *frame.Client) {
	t.Helper()
	reply, err := client.Call(t.Context(), func(request wirecapnp.Request) error {
		hello, err := request.NewHello()
		hello.SetMinVersion(1)
		hello.SetMaxVersion(1)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	reply.Release()
}

// A client that reads nothing stops being read itself, and its answers are bounded; others do not notice (invariant 5).
func TestSlowReaderSlowsOnlyItself(t *testing.T) {
	const limit = 4
	var handled sync.WaitGroup
	handled.Add(limit)
	release := make(chan struct{})
	_, addr := serve(t, frame.ServerConfig{MaxInFlight: limit, Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		if req.Session.Hello.ClientID == "test" {
			echo(ctx, req)
			return
		}
		handled.Done() // panics above the limit
		go func() {
			<-release
			echo(ctx, req)
		}()
	})})
	slow := dialRaw(t, addr)
	defer slow.Close()
	writeRequests(t, slow, append([]byte(nil), helloMessage(t)...))
	go func() {
		for range 50 {
			if _, err := slow.Write(publishMessage(t, 1)); err != nil {
				return
			}
		}
	}()
	handled.Wait()
	if _, err := dial(t, addr, frame.ClientConfig{}).Call(t.Context(), publish(0), []byte("x")); err != nil {
		t.Errorf("the other connection: %v", err)
	}
	handled.Add(50 - limit)
	close(release)
	handled.Wait()
}

// What a caller learns of a call that its connection took along (invariant 6).
func TestConnErrorSaysWhatMayHaveHappened(t *testing.T) {
	got := make(chan struct{})
	_, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(_ context.Context, req *frame.Request) {
		close(got)
		req.Session.Close(frame.Errorf(wirecapnp.ErrorKind_denied, "revoked"))
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_internal, "too late"))
	})})
	client := dial(t, addr, frame.ClientConfig{})
	_, err := client.Call(t.Context(), publish(0))
	<-got
	conn, ok := errors.AsType[*frame.ConnError](err)
	if !ok || !conn.Sent {
		t.Fatalf("got %v, want a ConnError with the outcome unknown", err)
	}
	wantKind(t, err, wirecapnp.ErrorKind_denied)
	<-client.Done()
	_, err = client.Call(t.Context(), publish(0))
	if conn, ok = errors.AsType[*frame.ConnError](err); !ok || conn.Sent {
		t.Fatalf("call on an ended connection gave %v, want a ConnError that was not sent", err)
	}
	wantKind(t, client.Err(), wirecapnp.ErrorKind_denied)
}

// A call that stands in the queue is withdrawn with its context; one that was written is of unknown outcome, and its body is in use until
// Done.
func TestGivenUp(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	client := frame.NewClient(near, frame.ClientConfig{})
	defer client.Close()
	// Nobody reads far: the writer takes the first call and waits; the second stays in the queue.
	first, err := client.Start(t.Context(), publish(0), make([]byte, 10_000))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(far, make([]byte, 16)); err != nil {
		t.Fatal(err)
	}
	second, err := client.Start(t.Context(), publish(1), make([]byte, 10_000))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = second.Wait(ctx)
	if conn, ok := errors.AsType[*frame.ConnError](err); !ok || conn.Sent || !errors.Is(err, context.Canceled) {
		t.Errorf("queued call gave %v, want a ConnError that was not sent", err)
	}
	<-second.Done()
	_, err = first.Wait(ctx)
	if conn, ok := errors.AsType[*frame.ConnError](err); !ok || !conn.Sent || !errors.Is(err, context.Canceled) {
		t.Errorf("written call gave %v, want a ConnError of unknown outcome", err)
	}
	select {
	case <-first.Done():
		t.Error("the written call's body is still in use")
	default:
	}
	_ = client.Close()
	<-first.Done()
}

// The answer to a call that was given up is dropped with all that it holds, and a handler's context ends with its answer.
func TestLateAnswer(t *testing.T) {
	budget := frame.NewBudget(1 << 20)
	got, release := make(chan struct{}), make(chan struct{})
	var ended atomic.Bool
	_, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		close(got)
		go func() {
			<-release
			if ctx.Err() != nil {
				t.Errorf("the handler's context ended early: %v", ctx.Err())
			}
			echo(ctx, req)
			<-ctx.Done()
			ended.Store(true)
		}()
	})})
	client := dial(t, addr, frame.ClientConfig{Budget: budget})
	p, err := client.Start(t.Context(), publish(0), make([]byte, 1000))
	if err != nil {
		t.Fatal(err)
	}
	<-got
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	close(release)
	<-p.Done()
	if n := budget.Used(); n != 0 {
		t.Errorf("%d bytes of the budget are kept by an answer that nobody waits for", n)
	}
	waitFor(t, "the handler's context has ended", ended.Load)
}

// waitFor polls a condition that a goroutine of the other side is about to make true.
func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}
