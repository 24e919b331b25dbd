package frame_test

import (
	"context"
	"errors"
	"net"
	"testing"

	"go.uber.org/goleak"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// accept takes every Hello.
func accept(context.Context, frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
	return frame.ServerInfo{ClusterID: "c1", NodeID: 7, Software: "test/1"}, nil
}

// echo answers a publish with its body, and its epoch as the base offset.
func echo(_ context.Context, req *frame.Request) {
	in, err := req.Message.Publish()
	if err != nil {
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_invalid, "publish is unreadable: %v", err))
		return
	}
	epoch := in.Epoch()
	var body frame.Body
	if buffer := req.TakeBody(); buffer != nil {
		body = buffer
	}
	_ = req.Reply(published(epoch), body)
}

func published(offset uint64) func(wirecapnp.Response) error {
	return func(response wirecapnp.Response) error {
		out, err := response.NewPublish()
		if err != nil {
			return err
		}
		out.SetBaseOffset(offset)
		return nil
	}
}

func publish(epoch uint64) func(wirecapnp.Request) error {
	return func(request wirecapnp.Request) error {
		out, err := request.NewPublish()
		if err != nil {
			return err
		}
		out.SetEpoch(epoch)
		return nil
	}
}

// serve runs a server on loopback until the test ends and gives its address.
func serve(t testing.TB, cfg frame.ServerConfig) (*frame.Server, string) {
	t.Helper()
	if cfg.Accept == nil {
		cfg.Accept = accept
	}
	if cfg.Handler == nil {
		cfg.Handler = frame.HandlerFunc(echo)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := frame.NewServer(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		if n := server.Stats().Connections; n != 0 {
			t.Errorf("%d connections are left", n)
		}
	})
	return server, listener.Addr().String()
}

// dial connects and says Hello.
func dial(t testing.TB, addr string, cfg frame.ClientConfig) *frame.Client {
	t.Helper()
	client := frame.NewClient(dialRaw(t, addr), cfg)
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Hello(t.Context(), frame.HelloParams{ClientID: "test"}); err != nil {
		t.Fatalf("hello: %v", err)
	}
	return client
}

func dialRaw(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// wantKind fails unless err is an answered error of a kind.
func wantKind(t testing.TB, err error, kind wirecapnp.ErrorKind) *frame.RemoteError {
	t.Helper()
	remote, ok := errors.AsType[*frame.RemoteError](err)
	if !ok || remote.Kind != kind {
		t.Fatalf("error %v, want an answered %v", err, kind)
	}
	return remote
}
