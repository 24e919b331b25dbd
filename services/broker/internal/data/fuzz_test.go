package data_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"capnproto.org/go/capnp/v3"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// pipeListener accepts what is put into it.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { l.once.Do(func() { close(l.done) }); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

func marshal(f *testing.F, fill func(wirecapnp.Request) error) []byte {
	f.Helper()
	message, segment := capnp.NewSingleSegmentMessage(nil)
	request, err := wirecapnp.NewRootRequest(segment)
	if err != nil {
		f.Fatal(err)
	}
	request.SetId(1)
	if err := fill(request); err != nil {
		f.Fatal(err)
	}
	data, err := message.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// Whatever a gateway or a tierer sends, no handler panics.
func FuzzRequests(f *testing.F) {
	for _, fill := range callsOf() {
		f.Add(true, marshal(f, fill))
		f.Add(false, marshal(f, fill))
	}
	registry := prometheus.NewRegistry()
	server := newServer(f, &fake{}, registry)
	listener := &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	f.Cleanup(func() {
		cancel()
		<-ended
	})
	hellos := map[bool][]byte{}
	for tierer, role := range map[bool]wirecapnp.Role{false: wirecapnp.Role_gateway, true: wirecapnp.Role_tierer} {
		hellos[tierer] = marshal(f, func(request wirecapnp.Request) error {
			hello, err := request.NewHello()
			hello.SetMinVersion(1)
			hello.SetMaxVersion(1)
			hello.SetRole(role)
			return err
		})
	}
	f.Fuzz(func(t *testing.T, tierer bool, data []byte) {
		near, far := net.Pipe()
		listener.conns <- far
		answers := make(chan struct{})
		go func() {
			defer close(answers)
			_, _ = io.Copy(io.Discard, near)
		}()
		if _, err := near.Write(hellos[tierer]); err != nil {
			t.Fatal(err)
		}
		_, _ = near.Write(data) // the server may end it at any byte
		_ = near.Close()
		<-answers
		if n := panics(t, registry); n != 0 {
			t.Fatalf("%v handlers panicked", n)
		}
	})
}

func panics(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == "sq_broker_handler_panics_total" {
			return family.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatal("no such metric")
	return 0
}
