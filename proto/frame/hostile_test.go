package frame_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

const (
	invalid            = wirecapnp.ErrorKind_invalid
	tooLarge           = wirecapnp.ErrorKind_tooLarge
	unauthenticated    = wirecapnp.ErrorKind_unauthenticated
	unsupportedVersion = wirecapnp.ErrorKind_unsupportedVersion
)

// hostile is what a bad client sends behind its Hello, and what it must be told.
type hostile struct {
	name  string
	send  []byte
	fresh bool // no Hello before it
	id    uint64
	kind  wirecapnp.ErrorKind
	text  string // part of it
	goOn  bool   // the connection serves what comes behind it
}

// The frames and messages of proof.md §6.3, items 1 and 2.
func hostileInputs(t testing.TB) []hostile {
	deep := requestMessage(t, func(request wirecapnp.Request) error { _, err := request.NewPublish(); return err })
	return []hostile{
		// Frames.
		{name: "length 0", send: segments(0, 0), kind: invalid, text: "empty"},
		{name: "length 2^31-1 words", send: segments(0, 1<<31-1), kind: tooLarge, text: "17179869184 bytes"},
		{name: "length 2^32-1 words", send: segments(0, 1<<32-1), kind: tooLarge, text: "34359738368 bytes"},
		{name: "one byte above the limit before hello", send: segments(0, 64<<10/8), fresh: true, kind: tooLarge, text: "limit of 65536"},
		{name: "two segments", send: segments(1, 1, make([]byte, 24)...), kind: invalid, text: "2 segments"},
		{name: "513 segments", send: segments(512, 1, make([]byte, 4096)...), kind: invalid, text: "513 segments"},
		{name: "2^32 segments", send: segments(1<<32-1, 1, make([]byte, 64)...), kind: invalid, text: "4294967296 segments"},
		{name: "declared more than sent", send: publishMessage(t, 2)[:40], kind: invalid, text: "ends inside"},
		{name: "half a frame header", send: []byte{0, 0, 0}, kind: invalid, text: "ends inside"},
		{name: "body declared longer than sent", send: append(publishWithBody(t, 100), 1, 2, 3), kind: invalid, text: "ends inside"},
		{name: "body of 4 GiB", send: publishWithBody(t, 1<<32-1), kind: tooLarge, text: "4294967295 bytes"},
		{name: "body above the limit", send: append(publishWithBody(t, 9<<20), make([]byte, 9<<20)...), id: 2, kind: tooLarge, text: "limit of 8388608", goOn: true},
		{name: "more sent than declared", send: append(publishMessage(t, 2), "garbage behind"...), id: 2, kind: invalid, text: "segments"},
		{name: "http", send: []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), fresh: true, kind: invalid, text: "segments"},
		{name: "tls", send: []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 client hello"), fresh: true, kind: invalid, text: "segments"},
		{name: "0xff", send: bytes.Repeat([]byte{0xff}, 4096), fresh: true, kind: invalid, text: "4294967296 segments"},
		{name: "a megabyte of garbage", send: bytes.Repeat([]byte{0xff}, 1<<20), fresh: true, kind: invalid, text: "4294967296 segments"},
		// Calls.
		{name: "version 0", send: helloVersions(t, 0, 0), fresh: true, id: 1, kind: unsupportedVersion, text: "speaks protocol version 1, the client offers 0 to 0"},
		{name: "version 255", send: helloVersions(t, 255, 255), fresh: true, id: 1, kind: unsupportedVersion, text: "offers 255 to 255"},
		{name: "publish before hello", send: publishMessage(t, 2), fresh: true, kind: unauthenticated, text: "must be hello"},
		{name: "hello twice", send: helloMessage(t), id: 1, kind: invalid, text: "already", goOn: true},
		{name: "id 0", send: publishMessage(t, 0), kind: invalid, text: "id 0"},
		{name: "union tag out of range", send: unknownKind(t, "and a body"), id: 2, kind: unsupportedVersion, text: "request kind 999", goOn: true},
		// Cap'n Proto.
		{name: "null root", send: append(segments(0, 1), words(0)...), kind: invalid, text: "unreadable"},
		{name: "root is a list", send: append(segments(0, 2), words(1|2<<32|8<<35, 0)...), kind: invalid, text: "unreadable"},
		{name: "root is a far pointer to no segment", send: append(segments(0, 2), words(2|5<<32, 0)...), kind: invalid, text: "unreadable"},
		{name: "root is a far pointer to itself", send: append(segments(0, 1), words(2)...), kind: invalid, text: "unreadable"},
		{name: "root is a capability", send: append(segments(0, 1), words(3)...), kind: invalid, text: "unreadable"},
		{name: "root beyond the message", send: append(segments(0, 1), words(6<<32|1<<48)...), kind: invalid, text: "unreadable"},
		{name: "root with an offset before the message", send: append(segments(0, 2), words(0xfffffff0|6<<32|1<<48, 0)...), kind: invalid, text: "unreadable"},
		{name: "publish is a list of 2^29-1 empty structs", send: withCall(deep, 1|(1<<29-1)<<35), id: 1, kind: invalid, text: "unreadable", goOn: true},
		{name: "publish beyond the message", send: withCall(deep, 0x7ffffff0|4<<32), id: 1, kind: invalid, text: "unreadable", goOn: true},
		{name: "composite list whose tag is no struct", send: withCall(deep, 1|7<<32|3<<35), id: 1, kind: invalid, text: "unreadable", goOn: true},
	}
}

// withCall puts a pointer in the place of the call of a publish request.
func withCall(message []byte, pointer uint64) []byte {
	message = bytes.Clone(message)
	binary.LittleEndian.PutUint64(message[8+8+48:], pointer)
	return message
}

// strictEcho refuses a publish that it cannot read as a struct.
func strictEcho(ctx context.Context, req *frame.Request) {
	if req.Message.Which() != wirecapnp.Request_Which_publish {
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_denied, "only publish is served"))
		return
	}
	in, err := req.Message.Publish()
	if err != nil || !in.IsValid() {
		_ = req.Fail(frame.Errorf(invalid, "publish is unreadable: %v", err))
		return
	}
	echo(ctx, req)
}

func TestHostileInput(t *testing.T) {
	server, addr := serve(t, frame.ServerConfig{Handler: frame.HandlerFunc(strictEcho)})
	for _, input := range hostileInputs(t) {
		t.Run(input.name, func(t *testing.T) {
			conn := dialRaw(t, addr).(*net.TCPConn)
			defer conn.Close()
			if !input.fresh {
				writeRequests(t, conn, helloMessage(t))
			}
			go func() { // the server may end it at any byte
				_, _ = conn.Write(input.send)
				if input.goOn {
					_, _ = conn.Write(publishMessage(t, 77))
				}
				_ = conn.CloseWrite()
			}()
			got := readResponses(t, conn)
			if !input.fresh && len(got) > 0 {
				got = got[1:]
			}
			checkTold(t, input, got)
		})
	}
	if n := server.Stats().Panics; n != 0 {
		t.Errorf("%d panics", n)
	}
}

func checkTold(t *testing.T, input hostile, got []response) {
	t.Helper()
	told, served := false, false
	for _, r := range got {
		if r.Which == wirecapnp.Response_Which_error && r.Kind == input.kind && strings.Contains(r.Text, input.text) {
			told = told || r.ID == input.id || input.name == "more sent than declared"
		}
		served = served || r.ID == 77 && r.Which == wirecapnp.Response_Which_publish
	}
	if !told {
		t.Errorf("want an error %v of request %d that says %q, got %+v", input.kind, input.id, input.text, got)
	}
	if served != input.goOn {
		t.Errorf("served what came behind it: %v, want %v: %+v", served, input.goOn, got)
	}
}

// A length is not allocated before its bytes come (invariant 1).
func TestClaimedLengthCostsNothing(t *testing.T) {
	for name, input := range map[string][]byte{
		"message": append(segments(0, 16<<20/8), 1, 2, 3),
		"body":    {1, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			reader := frame.NewReader(bytes.NewReader(input), 64<<20)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var err error
			if name == "message" {
				_, err = reader.Next()
			} else {
				_, err = reader.Body(t.Context(), 512<<20, nil)
			}
			runtime.ReadMemStats(&after)
			if !errors.Is(err, frame.ErrTruncated) {
				t.Errorf("got %v, want ErrTruncated", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
				t.Errorf("%d bytes allocated for three bytes of input", got)
			}
		})
	}
}

// Reading one object over and over, or a tree that is too deep, ends at a limit in proportion to the message.
func TestAmplificationIsBounded(t *testing.T) {
	message, err := frame.NewReader(bytes.NewReader(publishMessage(t, 1)), 1<<20).Next()
	if err != nil {
		t.Fatal(err)
	}
	defer message.Release()
	for reads := 1; ; reads++ {
		if _, err := wirecapnp.ReadRootRequest(message.Capnp()); err != nil {
			return
		}
		if reads > 10_000 {
			t.Fatal("a message of 100 bytes can be read 10,000 times over")
		}
	}
}

// Silence inside a message, and a drip of a byte a second, end the connection with a reason; silence between messages does not.
func TestStallAndDrip(t *testing.T) {
	for name, test := range map[string]struct {
		send  func(conn net.Conn, message []byte)
		after time.Duration // the longest that it may take
	}{
		"half a frame, then silence": {func(conn net.Conn, message []byte) {
			_, _ = conn.Write(message[:20])
		}, 6 * time.Second},
		"half a frame header, then silence": {func(conn net.Conn, message []byte) {
			_, _ = conn.Write(message[:3])
		}, 6 * time.Second},
		"a byte a second of a body": {func(conn net.Conn, message []byte) {
			_, _ = conn.Write(publishWithBody(t, 1<<20))
			for {
				if _, err := conn.Write([]byte{0}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}, 75 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := frame.NewServer(frame.ServerConfig{Handler: frame.HandlerFunc(echo), Accept: accept})
				near, far := net.Pipe()
				go server.ServeConn(t.Context(), far)
				defer near.Close()
				reader := frame.NewReader(readOnly{near}, 1<<20)
				writeRequests(t, near, helloMessage(t))
				if _, err := reader.Next(); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Hour)
				start := time.Now()
				var sender sync.WaitGroup
				defer sender.Wait()
				sender.Go(func() { test.send(near, publishMessage(t, 2)) })
				message, err := reader.Next()
				if err != nil {
					t.Fatalf("no reason given: %v", err)
				}
				answer, err := wirecapnp.ReadRootResponse(message.Capnp())
				if err != nil || answer.Which() != wirecapnp.Response_Which_error {
					t.Fatalf("got %v, %v; want an error", answer.Which(), err)
				}
				if told, _ := answer.Error(); told.Kind() != wirecapnp.ErrorKind_deadlineExceeded {
					t.Errorf("told %v", told.Kind())
				}
				if _, err := reader.Next(); !errors.Is(err, io.EOF) {
					t.Errorf("connection ends with %v", err)
				}
				if took := time.Since(start); took > test.after {
					t.Errorf("took %v, want at most %v", took, test.after)
				}
			})
		})
	}
}

// readOnly hides the deadlines of a connection.
type readOnly struct{ io.Reader }

// A connection that does not say Hello is closed in time, whatever it drips.
func TestHelloTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := frame.NewServer(frame.ServerConfig{Handler: frame.HandlerFunc(echo), Accept: accept})
		near, far := net.Pipe()
		ended := make(chan struct{})
		go func() {
			server.ServeConn(t.Context(), far)
			close(ended)
		}()
		defer near.Close()
		go func() { _, _ = io.Copy(io.Discard, near) }()
		start := time.Now()
		var sender sync.WaitGroup
		defer sender.Wait()
		sender.Go(func() {
			for _, b := range segments(0, 1000, make([]byte, 8000)...) {
				if _, err := near.Write([]byte{b}); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		<-ended
		if took := time.Since(start); took > frame.DefaultHelloTimeout+time.Second {
			t.Errorf("took %v", took)
		}
	})
}

// A client that takes no bytes is closed in time.
func TestWriteTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := frame.NewServer(frame.ServerConfig{Handler: frame.HandlerFunc(echo), Accept: accept})
		near, far := net.Pipe()
		ended := make(chan struct{})
		go func() {
			server.ServeConn(t.Context(), far)
			close(ended)
		}()
		defer near.Close()
		writeRequests(t, near, helloMessage(t)) // and never reads the answer
		<-ended
	})
}

// Ten thousand requests at once, far beyond what may be in flight, are all answered.
func TestTenThousandPipelined(t *testing.T) {
	const n = 10_000
	_, addr := serve(t, frame.ServerConfig{MaxInFlight: 100})
	conn := dialRaw(t, addr).(*net.TCPConn)
	defer conn.Close()
	go func() {
		_, _ = conn.Write(append(helloMessage(t), bytes.Repeat(publishMessage(t, 2), n)...)) // readResponses shows what was missing
		_ = conn.CloseWrite()
	}()
	if got := len(readResponses(t, conn)); got != n+1 {
		t.Errorf("%d answers, want %d", got, n+1)
	}
}

// Connections that say nothing are bounded in number.
func TestUnauthenticatedAreBounded(t *testing.T) {
	server, addr := serve(t, frame.ServerConfig{MaxUnauthenticated: 2})
	for range 2 {
		conn := dialRaw(t, addr)
		defer conn.Close()
	}
	waitFor(t, "both are accepted", func() bool { return server.Stats().Unauthenticated == 2 })
	refused := dialRaw(t, addr)
	defer refused.Close()
	if _, err := refused.Read(make([]byte, 1)); err == nil {
		t.Error("the third connection was answered")
	}
	waitFor(t, "the refusal is counted", func() bool { return server.Stats().Refused == 1 })
}
