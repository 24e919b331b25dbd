package frame_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Shutdown answers what is in flight, refuses nothing that comes before the client has heard of it, and leaves the client with a clean end.
func TestShutdownDrains(t *testing.T) {
	var held sync.WaitGroup
	held.Add(1)
	release := make(chan struct{})
	server, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		held.Done()
		go func() {
			<-release
			echo(ctx, req)
		}()
	})})
	busy, idle := dial(t, addr, frame.ClientConfig{}), dial(t, addr, frame.ClientConfig{})
	p, err := busy.Start(t.Context(), publish(5), []byte("in flight"))
	if err != nil {
		t.Fatal(err)
	}
	held.Wait()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(t.Context()) }()
	<-idle.Done()
	if !errors.Is(idle.Err(), frame.ErrGoingAway) {
		t.Errorf("the idle connection ended with %v", idle.Err())
	}
	waitFor(t, "the busy client has heard", busy.GoingAway)
	if _, err := busy.Call(t.Context(), publish(6)); !errors.Is(err, frame.ErrGoingAway) {
		t.Errorf("a call after goAway gave %v", err)
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("the listener is still open")
	}
	close(release)
	reply, err := p.Wait(t.Context())
	if err != nil || string(reply.Body) != "in flight" {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-stopped; err != nil {
		t.Errorf("shutdown: %v", err)
	}
}

// Shutdown does not wait for ever for a handler that does not answer.
func TestShutdownEndsWithItsContext(t *testing.T) {
	started := make(chan struct{})
	server, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		close(started)
		go func() {
			<-ctx.Done() // ends with the connection
			_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_canceled, "%v", ctx.Err()))
		}()
	})})
	p, err := dial(t, addr, frame.ClientConfig{}).Start(t.Context(), publish(0))
	if err != nil {
		t.Fatal(err)
	}
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := server.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("shutdown gave %v", err)
	}
	if _, err := p.Wait(t.Context()); err == nil {
		t.Error("the call was answered")
	}
}

// A client that closes its sending side gets the answers it waits for; what would wait is cut short.
func TestHalfClose(t *testing.T) {
	_, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		go func() {
			<-ctx.Done()
			echo(ctx, req)
		}()
	})})
	conn := dialRaw(t, addr).(*net.TCPConn)
	defer conn.Close()
	writeRequests(t, conn, helloMessage(t), publishMessage(t, 2), publishMessage(t, 3))
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got := readResponses(t, conn); len(got) != 3 {
		t.Errorf("got %+v, want the answers to hello and two calls", got)
	}
}

// Whoever refuses a Hello, or whose Hello is refused, learns why.
func TestHelloRefused(t *testing.T) {
	_, addr := serve(t, frame.ServerConfig{Accept: func(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_wrongCluster, "this is c1, not %s", hello.ClusterID)
	}})
	client := frame.NewClient(dialRaw(t, addr), frame.ClientConfig{})
	defer client.Close()
	_, err := client.Hello(t.Context(), frame.HelloParams{ClusterID: "c2"})
	if remote := wantKind(t, err, wirecapnp.ErrorKind_wrongCluster); remote.Text != "this is c1, not c2" {
		t.Errorf("told %q", remote.Text)
	}
	<-client.Done()
}

// The server's data and limits arrive with the answer to Hello, and the session with the requests.
func TestHello(t *testing.T) {
	closed := make(chan any, 1)
	want := frame.HelloParams{
		Role: wirecapnp.Role_gateway, ClientID: "gw-1", Software: "sq/0.1", Token: "t", Zone: "a", ClusterID: "c1", OnBehalfOf: "alice",
		MinVersion: 1, MaxVersion: 4,
	}
	_, addr := serve(t, frame.ServerConfig{
		MaxInFlight: 9, MaxBodyBytes: 1234, MaxMessageBytes: 100_000,
		Closed: func(session *frame.Session) { closed <- session.Value() },
		Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
			if req.Session.Hello.HelloParams != want {
				t.Errorf("session of %+v", req.Session.Hello)
			}
			req.Session.SetValue("mine")
			echo(ctx, req)
		}),
	})
	client := frame.NewClient(dialRaw(t, addr), frame.ClientConfig{})
	info, err := client.Hello(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	wantInfo := frame.ServerInfo{Version: 1, ClusterID: "c1", NodeID: 7, Software: "test/1", MaxMessageBytes: 100_000, MaxBodyBytes: 1234, MaxInFlight: 9}
	if info != wantInfo {
		t.Errorf("got %+v, want %+v", info, wantInfo)
	}
	if _, err := client.Call(t.Context(), publish(0)); err != nil {
		t.Fatal(err)
	}
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	if got := <-closed; got != "mine" {
		t.Errorf("the session ended with %v", got)
	}
}

// What a server says that belongs to no call, or not to the one it answers, harms nobody.
func TestStrangeServer(t *testing.T) {
	near, far := net.Pipe()
	defer far.Close()
	client := frame.NewClient(near, frame.ClientConfig{})
	defer client.Close()
	p, err := client.Start(t.Context(), publish(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.Read(make([]byte, 4096)); err != nil {
		t.Fatal(err)
	}
	pong := func(id uint64) []byte {
		return responseMessage(t, func(response wirecapnp.Response) { response.SetId(id); response.SetPong() })
	}
	writeRequests(t, far, pong(99), pong(1))
	if _, err := p.Wait(t.Context()); err == nil {
		t.Error("a publish was answered by a pong")
	} else if conn, ok := errors.AsType[*frame.ConnError](err); !ok || !conn.Sent {
		t.Errorf("got %v, want an unknown outcome", err)
	}
	if n := client.UnknownAnswers(); n != 1 {
		t.Errorf("%d unknown answers counted", n)
	}
	writeRequests(t, far, responseMessage(t, func(response wirecapnp.Response) { response.SetId(2); response.SetBodyBytes(1 << 31) }))
	<-client.Done()
	if format, ok := errors.AsType[*frame.FormatError](client.Err()); !ok || format.Kind != wirecapnp.ErrorKind_tooLarge {
		t.Errorf("a body of 2 GiB ended the connection with %v", client.Err())
	}
}

// Closing the server's context ends connections and handlers at once.
func TestServeEndsWithItsContext(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := frame.NewServer(frame.ServerConfig{Accept: accept, Handler: frame.HandlerFunc(func(ctx context.Context, req *frame.Request) {
		go func() {
			<-ctx.Done()
			_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_canceled, "%v", ctx.Err()))
		}()
	})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	client := dial(t, listener.Addr().String(), frame.ClientConfig{})
	p, err := client.Start(t.Context(), publish(0))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the request is there", func() bool { return server.Stats().Requests == 2 })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := p.Wait(t.Context()); err == nil {
		t.Error("the call was answered")
	}
}
