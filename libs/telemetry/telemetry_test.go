package telemetry_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/telemetry"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTelemetry(t *testing.T, c telemetry.Config) *telemetry.Telemetry {
	t.Helper()
	c.Service, c.Version = "sq-test", "v9"
	tel, err := telemetry.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tel.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return tel
}

func TestLogHasTraceIDs(t *testing.T) {
	var out strings.Builder
	tel := newTelemetry(t, telemetry.Config{Instance: "3", LogFormat: "json", LogLevel: "warn", Out: &out})
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	tel.Log.InfoContext(ctx, "below the level")
	tel.Log.With("topic", "orders").WarnContext(ctx, "slow")
	var line map[string]any
	if err := json.Unmarshal([]byte(out.String()), &line); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	for key, want := range map[string]string{
		"msg": "slow", "level": "WARN", "service": "sq-test", "instance": "3", "topic": "orders",
		"trace_id": span.TraceID().String(), "span_id": span.SpanID().String(),
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %q", key, line[key], want)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, c := range []telemetry.Config{{LogLevel: "loud", Out: io.Discard}, {LogFormat: "xml", Out: io.Discard}, {}} {
		if _, err := telemetry.New(t.Context(), c); err == nil {
			t.Errorf("%+v accepted", c)
		}
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "pigeon")
	if _, err := telemetry.New(t.Context(), telemetry.Config{Out: io.Discard}); err == nil || !strings.Contains(err.Error(), "OTEL_TRACES_EXPORTER") {
		t.Errorf("unknown exporter: %v", err)
	}
}

// locked lets the exporter's goroutine log while the test reads.
type locked struct {
	sync.Mutex
	strings.Builder
}

func (l *locked) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	return l.Builder.Write(p)
}

func TestTracers(t *testing.T) {
	t.Run("off", func(t *testing.T) {
		tel := newTelemetry(t, telemetry.Config{Out: io.Discard})
		parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}})
		_, span := tel.Tracers.Tracer("x").Start(trace.ContextWithSpanContext(t.Context(), parent), "y")
		if got := span.SpanContext(); got.TraceID() != parent.TraceID() || span.IsRecording() {
			t.Errorf("span %+v recording %v", got, span.IsRecording())
		}
	})
	t.Run("exporter that fails", func(t *testing.T) {
		refused := httptest.NewServer(http.NotFoundHandler())
		defer refused.Close()
		t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
		t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", refused.URL)
		var out locked
		tel, err := telemetry.New(t.Context(), telemetry.Config{Service: "sq-test", Out: &out})
		if err != nil {
			t.Fatal(err)
		}
		_, span := tel.Tracers.Tracer("x").Start(t.Context(), "y")
		if !span.IsRecording() {
			t.Error("the span is not recorded")
		}
		span.End()
		if err := tel.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
		if got := out.String(); !strings.Contains(got, "spans are lost") || !strings.Contains(got, "404") {
			t.Errorf("log: %q", got)
		}
	})
}

func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestHandlers(t *testing.T) {
	tel := newTelemetry(t, telemetry.Config{Out: io.Discard})
	admin := telemetry.AdminHandler(tel.Registry)
	var lack error
	health := telemetry.HealthHandler(telemetry.Health{Ready: func() error { return lack }, Service: "sq-test", Version: "v9"})
	for _, c := range []struct {
		handler http.Handler
		path    string
		lack    error
		status  int
		want    string
	}{
		{admin, "/metrics", nil, 200, `sq_build_info{service="sq-test",version="v9"} 1`},
		{admin, "/metrics", nil, 200, "go_goroutines"},
		{admin, "/metrics", nil, 200, "process_open_fds"},
		{admin, "/debug/pprof/", nil, 200, "goroutine"},
		{admin, "/debug/pprof/goroutine?debug=1", nil, 200, "TestHandlers"},
		{admin, "/livez", nil, 404, ""},
		{health, "/livez", errors.New("no quorum"), 200, "live"},
		{health, "/readyz", nil, 200, "ready"},
		{health, "/readyz", errors.New("no quorum"), 503, "not ready: no quorum"},
		{health, "/version", nil, 200, `"version":"v9"`},
		{health, "/debug/pprof/", nil, 404, ""},
	} {
		lack = c.lack
		if status, body := get(t, c.handler, c.path); status != c.status || !strings.Contains(body, c.want) {
			t.Errorf("%s: %d %q, want %d with %q", c.path, status, body, c.status, c.want)
		}
	}
}

func TestServeHTTP(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	arrived, release, served := make(chan struct{}), make(chan struct{}), make(chan error)
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = io.WriteString(w, "done")
	})
	go func() { served <- telemetry.ServeHTTP(ctx, slog.New(slog.DiscardHandler), listener, handler) }()
	answered := make(chan string)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	go func() {
		response, err := client.Get("http://" + listener.Addr().String())
		if err != nil {
			answered <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answered <- string(body)
	}()
	<-arrived
	cancel()
	for refused := false; !refused; { // the server stops; the request in flight is still answered
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", listener.Addr().String())
		if refused = err != nil; !refused {
			_ = conn.Close()
		}
	}
	close(release)
	if got := <-answered; got != "done" {
		t.Errorf("answered %q", got)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := telemetry.ServeHTTP(t.Context(), slog.New(slog.DiscardHandler), listener, handler); !errors.Is(err, net.ErrClosed) {
		t.Errorf("on a closed listener: %v", err)
	}
}
