package dev_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/cli/internal/dev"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/sdk/go/sq"
)

// TestMain finds goroutines that are left. fasthttp, under the embedded S3 server, sleeps out its last ten seconds.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

// running is an `sq dev` in this process.
type running struct {
	t     *testing.T
	told  []string // up to "ready"
	ended chan error
	stop  context.CancelFunc
}

func start(t *testing.T, cfg dev.Config) *running {
	t.Helper()
	cfg.CapnpHost, cfg.GRPCHost, cfg.HTTPHost, cfg.AdminHost = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	ctx, cancel := context.WithCancel(t.Context())
	out, in := io.Pipe()
	r := &running{t: t, ended: make(chan error, 1), stop: cancel}
	var log strings.Builder
	go func() {
		err := dev.Run(ctx, cfg, in, &log)
		_ = in.Close()
		r.ended <- err
	}()
	t.Cleanup(func() { r.end(); _ = out.Close() })
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		r.told = append(r.told, lines.Text())
		if strings.HasPrefix(lines.Text(), "ready in ") {
			return r
		}
	}
	err := <-r.ended
	r.ended <- err
	t.Fatalf("not ready: %v\n%s\n%s", err, strings.Join(r.told, "\n"), log.String())
	return nil
}

// end stops it; a second time does nothing.
func (r *running) end() {
	r.stop()
	if err := <-r.ended; err != nil {
		r.t.Errorf("run ended with %v", err)
	}
	r.ended <- nil
}

// tells finds a line and gives what the pattern's group matches.
func (r *running) tells(pattern string) string {
	r.t.Helper()
	for _, line := range r.told {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(line); found != nil {
			return found[len(found)-1]
		}
	}
	r.t.Fatalf("no %q in\n%s", pattern, strings.Join(r.told, "\n"))
	return ""
}

func (r *running) client() *sq.Client {
	r.t.Helper()
	c, err := sq.Open(r.t.Context(), r.tells(`^  data +(\S+)`), sq.Tracers(noop.NewTracerProvider()))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func values(t *testing.T, c *sq.Client, topic string) string {
	t.Helper()
	var got []string
	for r, err := range c.Read(t.Context(), topic, sq.Until(sq.End)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(r.Value))
	}
	return strings.Join(got, " ")
}

func TestKeepsItsDataAndTakesOneProcess(t *testing.T) {
	cfg := dev.Defaults()
	cfg.DataDir = filepath.Join(t.TempDir(), "some", "where")
	first := start(t, cfg)
	first.tells("1 broker, data in " + cfg.DataDir)
	first.tells("an ack means fsync-quorum")
	c := first.client()
	ack, err := c.Producer("orders").Send(t.Context(), sq.Record{Value: []byte("hello")})
	if err != nil || ack.Durability != sq.FsyncQuorum {
		t.Fatalf("%+v %v", ack, err)
	}
	if err := dev.Run(t.Context(), cfg, io.Discard, io.Discard); !fault.Is(err, fault.DataDirInUse) || !strings.Contains(err.Error(), "--data-dir") {
		t.Errorf("a second one: %v", err)
	}
	_ = c.Close()
	first.end()
	second := start(t, cfg)
	c = second.client()
	if _, err := c.Producer("orders").Send(t.Context(), sq.Record{Value: []byte("again")}); err != nil {
		t.Fatal(err)
	}
	if got := values(t, c, "orders"); got != "hello again" {
		t.Errorf("got %q", got)
	}
	for path, want := range map[string]string{"http://" + second.tells(`REST +http://(\S+)`) + "/readyz": "ready", second.tells(`metrics +(\S+)`): "sq_coordinator_active_state"} {
		response, err := http.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %.200s", path, response.StatusCode, body)
		}
	}
	_ = c.Close()
}

func TestMemoryLeavesNothing(t *testing.T) {
	cfg := dev.Defaults()
	dir := t.TempDir()
	t.Chdir(dir)
	cfg.Memory, cfg.Brokers = true, 3
	r := start(t, cfg)
	r.tells("3 brokers, data in memory")
	r.tells("nothing survives")
	c := r.client()
	if _, err := c.Producer("orders").Send(t.Context(), sq.Record{Value: []byte("hello")}); err != nil {
		t.Fatal(err)
	}
	if got := values(t, c, "orders"); got != "hello" {
		t.Errorf("got %q", got)
	}
	_ = c.Close()
	r.end()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// Brokers stay from one run to the next; more may come.
func TestBrokersOfADirectory(t *testing.T) {
	cfg := dev.Defaults()
	cfg.DataDir, cfg.Brokers = t.TempDir(), 2
	first := start(t, cfg)
	first.tells("2 brokers, data in")
	c := first.client()
	for _, topic := range []string{"one", "two", "three"} { // on both of them
		if _, err := c.Producer(topic).Send(t.Context(), sq.Record{Value: []byte(topic)}); err != nil {
			t.Fatal(err)
		}
	}
	_ = c.Close()
	first.end()
	cfg.Brokers = 1
	if err := dev.Run(t.Context(), cfg, io.Discard, io.Discard); !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), "--brokers 2") {
		t.Errorf("fewer brokers: %v", err)
	}
	for _, next := range []struct {
		brokers int
		told    string
	}{{0, "2 brokers, data in"}, {3, "3 brokers, data in"}} {
		cfg.Brokers = next.brokers
		again := start(t, cfg)
		told := next.told
		again.tells(told)
		c := again.client()
		for _, topic := range []string{"one", "two", "three"} {
			if got := values(t, c, topic); got != topic {
				t.Errorf("%s: topic %s has %q", told, topic, got)
			}
		}
		_ = c.Close()
		again.end()
	}
}

func TestSaysWhatAnAckMeans(t *testing.T) {
	cfg := dev.Defaults()
	cfg.DataDir, cfg.SyncPolicy = t.TempDir(), "none"
	start(t, cfg).tells("an ack means written, not fsynced")
}

func TestCannotStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*dev.Config){
		file:            func(c *dev.Config) { c.DataDir = file },
		"capnp-host":    func(c *dev.Config) { c.CapnpHost = "nowhere" },
		"log level":     func(c *dev.Config) { c.LogLevel = "loud" },
		"sync-policy":   func(c *dev.Config) { c.SyncPolicy = "sometimes" },
		"cluster-id":    func(c *dev.Config) { c.ClusterID = "x" },
		"brokers: 1000": func(c *dev.Config) { c.Brokers = 1000 },
	} {
		cfg := dev.Defaults()
		cfg.DataDir = filepath.Join(t.TempDir(), "sq")
		change(&cfg)
		if err := dev.Run(t.Context(), cfg, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
