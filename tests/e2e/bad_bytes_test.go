package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/tests/cluster"
)

// closeTimeout is when a server must have given up a silent peer: 10 s for the Hello, 5 s inside a message, and slack.
const closeTimeout = 20 * time.Second

// memoryMax is what a process may hold after all of this: many times what it needs, far below what the hostile lengths claim.
const memoryMax = 512 << 20

func noise(n int) []byte {
	out := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(out) // never fails
	return out
}

// ports are the data ports of a cluster by process.
func ports(c *cluster.Cluster) map[string]string {
	out := map[string]string{"gateway": c.DataAddr}
	if c.Shape == cluster.Processes {
		out["broker"] = c.Process("broker").Flag("capnp-host")
		out["tierer"] = c.Process("tierer").Flag("capnp-host")
	}
	return out
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	var d net.Dialer
	conn, err := d.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// words are little-endian 32-bit numbers: a segment table.
func words(values ...uint32) []byte {
	var out []byte
	for _, v := range values {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	return out
}

// request marshals a request with a body length that it may not have.
func request(t *testing.T, bodyBytes uint32, fill func(wirecapnp.Request) error) []byte {
	t.Helper()
	message, segment := capnp.NewSingleSegmentMessage(nil)
	r, err := wirecapnp.NewRootRequest(segment)
	if err == nil {
		r.SetId(1)
		r.SetBodyBytes(bodyBytes)
		err = fill(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	out, err := message.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func hello(t *testing.T, minVersion, maxVersion uint16) []byte {
	t.Helper()
	return request(t, 0, func(r wirecapnp.Request) error {
		h, err := r.NewHello()
		if err != nil {
			return err
		}
		h.SetMinVersion(minVersion)
		h.SetMaxVersion(maxVersion)
		return h.SetClientId("e2e")
	})
}

// hostile are the bytes that a data port must survive, by name. Whatever is answered, the connection must end.
func hostile(t *testing.T) map[string][]byte {
	t.Helper()
	whole := hello(t, 1, 1)
	return map[string][]byte{
		"noise":                     noise(100_000),
		"HTTP":                      []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"zeros":                     make([]byte, 10_000),
		"0xff":                      bytes.Repeat([]byte{0xff}, 10_000),
		"4 billion segments":        words(0xffffffff, 1, 1),
		"one segment of 32 GiB":     words(0, 0xffffffff),
		"many segments":             append(words(511), make([]byte, 2048)...),
		"length above the limit":    append(words(0, 1<<20), make([]byte, 1000)...),
		"root pointer out of range": append(words(0, 1), 0xfc, 0xff, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff),
		"publish before hello": request(t, 0, func(r wirecapnp.Request) error {
			_, err := r.NewPublish()
			return err
		}),
		"body before hello": request(t, 1<<30, func(r wirecapnp.Request) error {
			_, err := r.NewHello()
			return err
		}),
		"hello twice":          append(append([]byte{}, whole...), whole...),
		"body above the limit": append(append([]byte{}, whole...), claim(t, 0xffffffff)...),
		"body that never comes": append(append([]byte{}, whole...),
			append(claim(t, 1<<20), noise(1000)...)...),
		"body of noise":            append(append([]byte{}, whole...), append(claim(t, 1000), noise(1000)...)...),
		"half a frame":             whole[:len(whole)/2],
		"half a segment table":     whole[:3],
		"half a request":           append(append([]byte{}, whole...), claim(t, 8)[:20]...),
		"nothing":                  nil,
		"answer instead of a call": append(append([]byte{}, whole...), response(t)...),
	}
}

func claim(t *testing.T, bodyBytes uint32) []byte {
	t.Helper()
	return request(t, bodyBytes, func(r wirecapnp.Request) error {
		_, err := r.NewPublish()
		return err
	})
}

func response(t *testing.T) []byte {
	t.Helper()
	message, segment := capnp.NewSingleSegmentMessage(nil)
	r, err := wirecapnp.NewRootResponse(segment)
	if err != nil {
		t.Fatal(err)
	}
	r.SetPong()
	out, err := message.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// patience is how long a connection may last after hostile bytes: a moment longer than this test looks, where they were whole requests
// that can be refused one by one.
func patience(name string) (d time.Duration, lasts bool) {
	switch name {
	case "hello twice", "body of noise", "answer instead of a call":
		return 2 * time.Second, true
	default:
		return closeTimeout, false
	}
}

// TestBadBytes sends what no client of ours would to every data port.
func TestBadBytes(t *testing.T) {
	eachShape(t, func(t *testing.T, c *cluster.Cluster) {
		c.MustSQ(t, "topic", "create", "orders")
		c.MustSQ(t, "produce", "orders", "before")
		var wg sync.WaitGroup
		for port, addr := range ports(c) {
			for name, content := range hostile(t) {
				conn := dial(t, addr)
				within, lasts := patience(name)
				wg.Go(func() {
					if err := sendAndAwaitEnd(conn, content, within); err != nil && !lasts {
						t.Errorf("%s, %s: %v", port, name, err)
					}
				})
			}
		}
		wg.Wait()
		for port, addr := range ports(c) {
			t.Run("wrong version at the "+port, func(t *testing.T) { wrongVersion(t, addr) })
			if used := c.Metric(t, port, "process_resident_memory_bytes"); used > memoryMax {
				t.Errorf("the %s holds %.0f MiB", port, used/(1<<20))
			}
		}
		c.MustSQ(t, "produce", "orders", "after")
		if got := string(consume(t, c, "orders")); got != "beforeafter" {
			t.Errorf("the topic is now %q", got)
		}
	})
}

// sendAndAwaitEnd sends and then is silent until the server ends the connection; it is an error if that takes longer than within.
func sendAndAwaitEnd(conn net.Conn, content []byte, within time.Duration) error {
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := conn.Write(content); err != nil {
		return endOf(err)
	}
	_, err := io.Copy(io.Discard, conn)
	return endOf(err)
}

// endOf: any end but our own deadline is an end.
func endOf(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

func wrongVersion(t *testing.T, addr string) {
	t.Helper()
	conn := dial(t, addr)
	if err := conn.SetDeadline(time.Now().Add(closeTimeout)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(hello(t, 900, 999)); err != nil {
		t.Fatal(err)
	}
	message, err := capnp.NewDecoder(conn).Decode()
	if err != nil {
		t.Fatal(err)
	}
	answer, err := wirecapnp.ReadRootResponse(message)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Which() != wirecapnp.Response_Which_error {
		t.Fatalf("answered %v", answer.Which())
	}
	refusal, err := answer.Error()
	if err != nil {
		t.Fatal(err)
	}
	text, _ := refusal.Text()
	if refusal.Kind() != wirecapnp.ErrorKind_unsupportedVersion || text == "" {
		t.Errorf("answered %v %q", refusal.Kind(), text)
	}
}

// role is whom a port serves.
func role(port string) wirecapnp.Role {
	if port == "gateway" {
		return wirecapnp.Role_client
	}
	return wirecapnp.Role_gateway
}

// TestBadCallsAreTyped: calls that make no sense on an open connection are answered by kind, and the connection lives.
func TestBadCallsAreTyped(t *testing.T) {
	eachShape(t, func(t *testing.T, c *cluster.Cluster) {
		for port, addr := range ports(c) {
			ctx, cancel := context.WithTimeout(t.Context(), closeTimeout)
			client := frame.NewClient(dial(t, addr), frame.ClientConfig{})
			if _, err := client.Hello(ctx, frame.HelloParams{ClientID: "e2e", Role: role(port)}); err != nil {
				t.Fatalf("%s: %v", port, err)
			}
			for name, fill := range map[string]func(wirecapnp.Request) error{
				"fetch of no topic":      func(r wirecapnp.Request) error { _, err := r.NewFetch(); return err },
				"publish without a body": func(r wirecapnp.Request) error { _, err := r.NewPublish(); return err },
				"offsets of no topic":    func(r wirecapnp.Request) error { _, err := r.NewListOffsets(); return err },
				"another's call":         func(r wirecapnp.Request) error { _, err := r.NewCommitTier(); return err },
			} {
				reply, err := client.Call(ctx, fill)
				if err == nil {
					t.Errorf("%s, %s: answered %v", port, name, reply.Response.Which())
					reply.Release()
					continue
				}
				refusal, ok := errors.AsType[*frame.RemoteError](err)
				if !ok || refusal.Kind == wirecapnp.ErrorKind_internal || refusal.Text == "" {
					t.Errorf("%s, %s: %v", port, name, err)
				}
			}
			_ = client.Close()
			cancel()
		}
	})
}
