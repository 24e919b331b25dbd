package rest

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// newPipe is a body that a test writes.
func newPipe() (io.ReadCloser, io.WriteCloser) { return io.Pipe() }

func (w *world) gateInUse() int { return w.gate.InUse() }

// What a client may get wrong, or do on purpose: each gets an error of the one shape with a stable reason.
func TestHostileRequests(t *testing.T) {
	w := newWorld(t, 2, nil)
	nest := strings.Repeat("[", 10_000)
	many := make([]string, 0, 20_000)
	for i := range 10_000 {
		many = append(many, fmt.Sprint("X-", i), "v")
	}
	for name, c := range map[string]struct {
		method, path, body string
		header             []string
		code               int
		reason             string
	}{
		"cut JSON":                {"POST", "/v1/topics/orders:publish", `{`, nil, 400, "INVALID"},
		"more behind it":          {"POST", "/v1/topics/orders:publish", `{"records":[{"text":"a"}]} x`, nil, 400, "INVALID"},
		"a second value":          {"POST", "/v1/topics/orders:publish", `{"records":[{"text":"a"}]}{}`, nil, 400, "INVALID"},
		"beyond a gRPC message":   {"POST", "/v1/topics/orders:publish", `{"records":[{"text":"` + strings.Repeat("a", 10<<20) + `"}]}`, nil, 413, "TOO_LARGE"},
		"a list":                  {"POST", "/v1/topics/orders:publish", `[]`, nil, 400, "INVALID"},
		"wrong type":              {"POST", "/v1/topics/orders:publish", `{"records":5}`, nil, 400, "INVALID"},
		"bad base64":              {"POST", "/v1/topics/orders:publish", `{"records":[{"data":"%%%"}]}`, nil, 400, "INVALID"},
		"unknown field":           {"POST", "/v1/topics/orders:publish", `{"unknown":1}`, nil, 400, "INVALID"},
		"doubled field":           {"POST", "/v1/topics/orders:publish", `{"partition":1,"partition":1,"records":[{}]}`, nil, 400, "INVALID"},
		"no records":              {"POST", "/v1/topics/orders:publish", `{"records":[]}`, nil, 400, "INVALID"},
		"not UTF-8":               {"POST", "/v1/topics/orders:publish", "\xff\xfe", nil, 400, "INVALID"},
		"deep":                    {"POST", "/v1/topics/orders:publish", `{"records":[{"json":` + nest + `}]}`, nil, 400, "INVALID"},
		"huge number":             {"POST", "/v1/topics/orders:publish", `{"partition":1e400,"records":[{}]}`, nil, 400, "INVALID"},
		"deep topic":              {"POST", "/v1/topics", nest, nil, 400, "INVALID"},
		"huge body":               {"POST", "/v1/topics/orders:publish", `{"records":[{"text":"` + strings.Repeat("x", 13<<20) + `"}]}`, nil, 413, "TOO_LARGE"},
		"huge record":             {"POST", "/v1/topics/orders/records", strings.Repeat("x", 8<<20+1), nil, 413, "TOO_LARGE"},
		"record above the topic":  {"POST", "/v1/topics/orders/records", strings.Repeat("x", 2<<20), nil, 413, "TOO_LARGE"},
		"compressed":              {"POST", "/v1/topics/orders/records", "v", []string{"Content-Encoding", "gzip"}, 415, "UNSUPPORTED_MEDIA_TYPE"},
		"two keys":                {"POST", "/v1/topics/orders/records", "v", []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, 400, "INVALID"},
		"long key":                {"POST", "/v1/topics/orders/records", "v", []string{"Idempotency-Key", strings.Repeat("k", 256)}, 400, "INVALID"},
		"key that is not ASCII":   {"POST", "/v1/topics/orders/records", "v", []string{"Idempotency-Key", "é"}, 400, "INVALID"},
		"two record keys":         {"POST", "/v1/topics/orders/records", "v", []string{"Sq-Key", "a", "Sq-Key", "b"}, 400, "INVALID"},
		"bad partition":           {"POST", "/v1/topics/orders/records?partition=x", "v", nil, 400, "INVALID"},
		"unknown partition":       {"POST", "/v1/topics/orders/records?partition=9", "v", nil, 400, "INVALID"},
		"huge partition":          {"POST", "/v1/topics/orders/records?partition=99999999999", "v", nil, 400, "INVALID"},
		"unknown parameter":       {"GET", "/v1/topics/orders/records?form=earliest", "", nil, 400, "INVALID"},
		"doubled parameter":       {"GET", "/v1/topics/orders/records?from=latest&from=earliest", "", nil, 400, "INVALID"},
		"bad escape":              {"GET", "/v1/topics/orders/records?from=%zz", "", nil, 400, "INVALID"},
		"bad from":                {"GET", "/v1/topics/orders/records?from=never", "", nil, 400, "INVALID"},
		"forged cursor":           {"GET", "/v1/topics/orders/records?cursor=forged", "", nil, 400, "INVALID"},
		"long cursor":             {"GET", "/v1/topics/orders/records?cursor=" + strings.Repeat("A", 20<<10), "", nil, 400, "INVALID"},
		"bad number":              {"GET", "/v1/topics/orders/records?maxRecords=minus", "", nil, 400, "INVALID"},
		"too many":                {"GET", "/v1/topics/orders/records?maxRecords=2147483647", "", nil, 400, "INVALID"},
		"negative bytes":          {"GET", "/v1/topics/orders/records?maxBytes=-1", "", nil, 400, "INVALID"},
		"endless wait":            {"GET", "/v1/topics/orders/records?waitTime=9999h", "", nil, 400, "INVALID"},
		"overflowing wait":        {"GET", "/v1/topics/orders/records?waitTime=99999999999999999999s", "", nil, 400, "INVALID"},
		"negative offset":         {"GET", "/v1/topics/orders/partitions/0/records/-1", "", nil, 400, "INVALID"},
		"huge offset":             {"GET", "/v1/topics/orders/partitions/0/records/9223372036854775808", "", nil, 400, "INVALID"},
		"unknown topic":           {"GET", "/v1/topics/nope/records", "", nil, 404, "NOT_FOUND"},
		"unknown namespace":       {"GET", "/v1/namespaces/nope/topics/orders/records", "", nil, 404, "NOT_FOUND"},
		"unknown path":            {"GET", "/v1/nothing", "", nil, 404, "NOT_FOUND"},
		"unknown root":            {"GET", "/etc/passwd", "", nil, 404, "NOT_FOUND"},
		"doubly encoded path":     {"GET", "/v1/topics/%252e%252e%252fetc/records", "", nil, 404, "NOT_FOUND"},
		"encoded slash":           {"GET", "/v1/topics/..%2fetc%2fpasswd", "", nil, 404, "NOT_FOUND"},
		"semicolon path":          {"GET", "/v1/topics/..;/records", "", nil, 404, "NOT_FOUND"},
		"NUL in a name":           {"GET", "/v1/topics/a%00b/records", "", nil, 404, "NOT_FOUND"},
		"line end in a name":      {"POST", "/v1/topics", `{"topic":"a\r\nb"}`, nil, 400, "INVALID"},
		"wrong method":            {"PUT", "/v1/topics/orders", `{}`, nil, 405, "METHOD_NOT_ALLOWED"},
		"method override":         {"POST", "/v1/topics/orders", ``, []string{"X-HTTP-Method-Override", "DELETE"}, 405, "METHOD_NOT_ALLOWED"},
		"method override, a form": {"POST", "/v1/topics/orders", `a=b`, []string{"Content-Type", "application/x-www-form-urlencoded"}, 405, "METHOD_NOT_ALLOWED"},
		"another site's page":     {"POST", "/v1/topics/orders/records", "v", []string{"Origin", "http://evil.example"}, 403, "DENIED"},
		"a page without origin":   {"POST", "/v1/topics/orders/records", "v", []string{"Origin", "null"}, 403, "DENIED"},
		"cross-site fetch":        {"DELETE", "/v1/topics/orders", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "DENIED"},
		"gRPC metadata":           {"GET", "/v1/topics/orders/records", "", []string{"Grpc-Metadata-Idempotency-Key", "x", "Grpc-Timeout", "bad"}, 200, ""},
		"many headers":            {"GET", "/v1/topics/orders/records", "", many, 431, ""},
		"a long header":           {"GET", "/v1/topics/orders/records", "", []string{"X-Long", strings.Repeat("x", 1<<20)}, 431, ""},
	} {
		got := w.do(t, c.method, c.path, c.body, c.header...)
		if got.code != c.code || got.reason() != c.reason && c.reason != "" {
			t.Errorf("%s: %d %.300s; want %d %s", name, got.code, got.body, c.code, c.reason)
		}
		if got.code >= 400 && got.code != 431 && got.header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: may be sniffed", name)
		}
	}
	if w.Logs[0].End()+w.Logs[1].End() != 0 {
		t.Error("something was stored")
	}
	if w.gate.InUse() != 0 {
		t.Errorf("%d slots are still taken", w.gate.InUse())
	}
}

// Bytes that no HTTP client would send.
func TestHostileBytes(t *testing.T) {
	w := newWorld(t, 1, nil)
	for name, c := range map[string]struct{ send, want string }{
		"length and chunks":   {"POST /v1/topics/orders/records HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nv\r\n0\r\n\r\n", "HTTP/1.1 "},
		"two lengths":         {"POST /v1/topics/orders/records HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nvv", "HTTP/1.1 400"},
		"negative length":     {"POST /v1/topics/orders/records HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 400"},
		"line end in a value": {"GET /v1/topics/orders/records HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\x00b\r\n\r\n", "HTTP/1.1 400"},
		"no host":             {"GET /livez HTTP/1.1\r\n\r\n", "HTTP/1.1 400"},
		"garbage":             {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "HTTP/1.1 400"},
		"bad chunk":           {"POST /v1/topics/orders/records HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP/1.1 400"},
	} {
		conn, err := w.Net.At("client").Dial(t.Context(), "gateway:6062")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		if _, err := conn.Write([]byte(c.send)); err != nil {
			t.Fatal(err)
		}
		status, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.HasPrefix(status, c.want) {
			t.Errorf("%s: %q, %v", name, status, err)
		}
		conn.Close()
	}
	if got := w.do(t, "GET", "/livez", ""); got.code != 200 {
		t.Errorf("afterwards: %d", got.code)
	}
}

// A body that stops half way ends in an error when its time is over, and keeps nothing.
func TestSlowBody(t *testing.T) {
	w := newWorld(t, 1, func(c *Config) { c.Limits.BodyTime = 50 * time.Millisecond })
	for _, kind := range []string{"text/plain", "application/x-ndjson", "application/json"} {
		path := "/v1/topics/orders/records"
		if kind == "application/json" {
			path = "/v1/topics/orders:publish"
		}
		conn, err := w.Net.At("client").Dial(t.Context(), "gateway:6062")
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: %s\r\nContent-Length: 100\r\n\r\nhalf", path, kind)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || res.StatusCode < 400 {
			t.Errorf("%s: %v, %v", kind, res, err)
		}
		if err == nil {
			res.Body.Close()
		}
		conn.Close()
	}
	if w.Logs[0].End() != 0 {
		t.Error("something was stored")
	}
}

func TestSlotsBoundRequests(t *testing.T) {
	w := newWorld(t, 1, nil)
	for range 50 {
		leave, err := w.gate.Enter()
		if err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
	got := w.do(t, "GET", "/v1/topics/orders/records", "")
	if got.code != 429 || got.reason() != "OVERLOADED" || got.header.Get("Retry-After") != "1" {
		t.Errorf("without a slot: %d %s", got.code, got.body)
	}
	if got := w.do(t, "GET", "/livez", ""); got.code != 200 {
		t.Errorf("health: %d", got.code)
	}
}

// The document names every route and resolves within itself, and the page brings all it needs.
func TestDocumentation(t *testing.T) {
	w := newWorld(t, 1, nil)
	got := w.do(t, "GET", "/openapi.json", "")
	document := unjson[document](t, got.body)
	for _, path := range []string{"/v1/topics", "/v1/topics/{topic}:publish", "/v1/topics/{topic}/records", "/v1/namespaces/{namespace}/topics/{topic}/records", "/v1/cluster", "/livez"} {
		if len(document.Paths[path]) == 0 {
			t.Errorf("%s is not described", path)
		}
	}
	for rest := got.body; ; {
		_, after, found := strings.Cut(rest, `"#/components/schemas/`)
		if !found {
			break
		}
		name, _, _ := strings.Cut(after, `"`)
		if document.Components.Schemas[name] == nil {
			t.Errorf("schema %s is missing", name)
		}
		rest = after
	}
	ids := map[string]bool{}
	for path, methods := range document.Paths {
		for method, operation := range methods {
			op, _ := operation.(map[string]any)
			id := fmt.Sprint(op["operationId"])
			if ids[id] || op["operationId"] == nil {
				t.Errorf("%s %s: operation id %s", method, path, id)
			}
			ids[id] = true
		}
	}
	page := w.do(t, "GET", "/docs/", "")
	if page.code != 200 || !strings.Contains(page.body, "page.js") || !strings.Contains(page.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("page: %d %v", page.code, page.header)
	}
	for _, path := range []string{"/docs/page.js", "/docs/page.css"} {
		if got := w.do(t, "GET", path, ""); got.code != 200 || strings.Contains(got.body, "http://") || strings.Contains(got.body, "https://") {
			t.Errorf("%s: %d", path, got.code)
		}
	}
	if got := w.do(t, "GET", "/docs/../openapi.json", ""); got.code >= 500 {
		t.Errorf("a path upwards: %d", got.code)
	}
}
