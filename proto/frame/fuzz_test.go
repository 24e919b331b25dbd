package frame_test

import (
	"bytes"
	"io"
	"net"
	"testing"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Any bytes end in a typed error, at a cost in proportion to them.
func FuzzReader(f *testing.F) {
	f.Add(publishMessage(f, 2))
	f.Add(append(helloMessage(f), publishWithBody(f, 3)...))
	for _, input := range hostileInputs(f) {
		if len(input.send) < 64<<10 {
			f.Add(input.send)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		reader := frame.NewReader(bytes.NewReader(data), 1<<20)
		for {
			message, err := reader.Next()
			if err != nil {
				return
			}
			body := int64(0)
			if request, err := wirecapnp.ReadRootRequest(message.Capnp()); err == nil && request.IsValid() {
				body = int64(request.BodyBytes())
				if request.Which() == wirecapnp.Request_Which_hello {
					hello, _ := request.Hello()
					_, _ = hello.ClientId()
				}
			}
			message.Release()
			if body > 1<<20 {
				return
			}
			buffer, err := reader.Body(t.Context(), int(body), nil)
			if err != nil {
				return
			}
			buffer.Release()
		}
	})
}

// A server takes any bytes behind a Hello without a panic, and ends the connection cleanly.
func FuzzServer(f *testing.F) {
	for _, input := range hostileInputs(f) {
		if len(input.send) < 64<<10 {
			f.Add(input.send)
		}
	}
	server := frame.NewServer(frame.ServerConfig{Handler: frame.HandlerFunc(strictEcho), Accept: accept})
	hello := helloMessage(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		near, far := net.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			server.ServeConn(t.Context(), far)
		}()
		answers := make(chan struct{})
		go func() {
			defer close(answers)
			_, _ = io.Copy(io.Discard, near)
		}()
		if _, err := near.Write(hello); err != nil {
			t.Fatal(err)
		}
		_, _ = near.Write(data)
		_ = near.Close()
		<-ended
		<-answers
		if n := server.Stats().Panics; n != 0 {
			t.Fatalf("%d panics", n)
		}
	})
}
