package sq_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/embedded"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

// deadAddr is where nobody listens.
func deadAddr(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestOpen(t *testing.T) {
	ctx, server, _ := setUp(t)
	if _, err := sq.Open(ctx, deadAddr(t)); !errors.Is(err, sq.ErrUnavailable) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody listens: %v", err)
	}
	for _, addrs := range []string{"nowhere", "a:1,,b:2", "::1:5"} {
		if _, err := sq.Open(ctx, addrs); !errors.Is(err, sq.ErrInvalid) {
			t.Errorf("%q: %v", addrs, err)
		}
	}
	if _, err := sq.Open(ctx, server.Addr(), sq.Budget(1)); !errors.Is(err, sq.ErrInvalid) {
		t.Errorf("budget: %v", err)
	}
	server.RequireToken("secret")
	if _, err := sq.Open(ctx, server.Addr(), sq.Token("wrong")); !errors.Is(err, sq.ErrUnauthenticated) {
		t.Errorf("wrong token: %v", err)
	}
	t.Setenv("SQ_TOKEN", "secret")
	t.Setenv("SQ_ADDR", server.Addr())
	c, err := sq.Open(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := c.Topic(ctx, "orders"); !errors.Is(err, sq.ErrClosed) {
		t.Errorf("after close: %v", err)
	}
	if _, err := c.Producer("orders").Send(ctx, sq.Record{}); !errors.Is(err, sq.ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
	if err := readError(c.Read(ctx, "orders")); !errors.Is(err, sq.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
}

// silent takes connections and never says a word.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().String()
}

// Any of several gateways will do: one that is dead, and one that dies.
func TestSeveralGateways(t *testing.T) {
	ctx, first, _ := setUp(t)
	first.CreateTopic("orders", 1)
	for range 4 { // whichever address is tried first
		c, err := sq.Open(ctx, deadAddr(t)+", "+first.Addr()+","+deadAddr(t), sq.Backoff(time.Millisecond, time.Millisecond))
		if err != nil {
			t.Fatal(err)
		}
		p := c.Producer("orders")
		for i := range 5 {
			if _, err := p.Send(ctx, sq.Record{Value: value(i)}); err != nil {
				t.Fatal(err)
			}
			first.DropConnections()
		}
		_ = c.Close()
	}
	if n := len(first.Values("orders")[0]); n != 20 {
		t.Errorf("%d of 20 records are stored", n)
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := sq.Open(short, silent(t)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a gateway that says nothing: %v", err)
	}
}

// A gateway that drains is left, without an error.
func TestGatewayComesBack(t *testing.T) {
	ctx, _, _ := setUp(t)
	server, err := sqtest.New()
	if err != nil {
		t.Fatal(err)
	}
	c, err := sq.Open(ctx, server.Addr(), sq.Backoff(time.Millisecond, time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.Producer("orders").Send(ctx, sq.Record{}); err != nil {
		t.Fatal(err)
	}
	server.Close()
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = c.Producer("orders").Send(short, sq.Record{})
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sq.ErrOutcomeUnknown) || !strings.Contains(err.Error(), "connect to") {
		t.Errorf("no gateway: %v", err)
	}
}

func TestTopicInfo(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("shop/orders", 2)
	info, err := c.Topic(ctx, "shop/orders")
	if err != nil {
		t.Fatal(err)
	}
	if info.Namespace != "shop" || info.Name != "orders" || len(info.Partitions) != 2 || info.Partitions[1].Leader == 0 ||
		info.ID != "00000000-0000-0000-0000-000000000001" || info.BatchBytesMax != 1<<20 {
		t.Errorf("%+v", info)
	}
	if _, err := c.Topic(ctx, "orders"); !errors.Is(err, sq.ErrTopicNotFound) {
		t.Errorf("in the default namespace: %v", err)
	}
	if _, err := c.ListOffsets(ctx, "shop/orders", 2, sq.Latest); !errors.Is(err, sq.ErrTopicNotFound) {
		t.Errorf("partition 2: %v", err)
	}
}

// spans keeps the names of spans and whether each had a parent.
type spans struct {
	embedded.TracerProvider

	names chan string
}

func (s *spans) Tracer(string, ...trace.TracerOption) trace.Tracer { return &tracer{names: s.names} }

type tracer struct {
	embedded.Tracer

	names chan string
}

func (s *tracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	if trace.SpanContextFromContext(ctx).IsValid() {
		name += " below the caller's"
	}
	select {
	case s.names <- name:
	default:
	}
	return ctx, trace.SpanFromContext(ctx)
}

func TestSpans(t *testing.T) {
	provider := &spans{names: make(chan string, 100)}
	ctx, _, c := setUp(t, sq.Tracers(provider))
	parent := trace.ContextWithSpanContext(ctx, trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	if _, err := c.Producer("orders").Send(parent, sq.Record{}); err != nil {
		t.Fatal(err)
	}
	readAll(parent, t, c, "orders")
	close(provider.names)
	var got []string
	for name := range provider.names {
		got = append(got, name)
	}
	for _, want := range []string{"send orders below the caller's", "receive orders below the caller's"} {
		if !slices.Contains(got, want) {
			t.Errorf("no span %q among %q", want, got)
		}
	}
}

func TestErrorTexts(t *testing.T) {
	err := &sq.Error{Kind: sq.KindOutcomeUnknown, Op: "publish to orders/3", Err: errors.New("connection closed")}
	if got := err.Error(); got != "publish to orders/3: outcome unknown: connection closed" {
		t.Error(got)
	}
	for kind := range sq.Kind(40) {
		if kind.String() == "" {
			t.Errorf("kind %d has no name", kind)
		}
	}
	if sq.FsyncQuorum.String() != "fsync-quorum" || sq.WrittenQuorum.String() != "written-quorum" || sq.DurabilityNone.String() != "none" {
		t.Error("a durability has another name than everywhere")
	}
}

// Whoever watches a call that is tried again and again hears why, now and then, and not about every hiccup.
func TestRetriesAreToldInTheEnd(t *testing.T) {
	for _, c := range []struct {
		refused int
		warned  int
	}{{3, 0}, {8, 1}} {
		for name, call := range map[string]sqtest.Call{"publish": sqtest.Publish, "list": sqtest.ListOffsets, "fetch": sqtest.Fetch} {
			var out bytes.Buffer
			log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
			ctx, server, client := setUp(t, sq.Log(log))
			server.CreateTopic("orders", 1)
			server.Inject(call, sqtest.Refuse(sq.KindDiskFull, 0), c.refused)
			if _, err := client.Producer("orders").Send(ctx, sq.Record{Value: value(1)}); err != nil {
				t.Fatal(err)
			}
			readAll(ctx, t, client, "orders")
			if err := client.Close(); err != nil { // nobody writes to out any more
				t.Fatal(err)
			}
			warned := 0
			for line := range strings.Lines(out.String()) {
				if strings.Contains(line, "disk") {
					warned++
				}
			}
			if warned != c.warned {
				t.Errorf("%s refused %d times: %d warnings: %s", name, c.refused, warned, out.String())
			}
		}
	}
}
