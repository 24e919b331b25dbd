package command_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/seedqueue/sq/cli/internal/command"
	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/objstore/membucket"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology/memstore"
	"github.com/seedqueue/sq/libs/transport/tcpnet"
	"github.com/seedqueue/sq/libs/version"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/services/allinone"
)

// cluster is all of SQ in this process, with one broker on the machine's disk.
type cluster struct {
	t     *testing.T
	dir   string // as that of `sq dev`
	env   command.Env
	addrs node.Addrs
	stop  func()
}

func startCluster(t *testing.T, alter func(*allinone.Config)) *cluster {
	t.Helper()
	dir := t.TempDir()
	disk, err := osfs.New(filepath.Join(dir, "broker-1"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = disk.Close() })
	store := memstore.New(clock.Real())
	t.Cleanup(func() { _ = store.Close() })
	cfg := allinone.Defaults()
	cfg.CapnpHost, cfg.GRPCHost, cfg.HTTPHost, cfg.AdminHost = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	if alter != nil {
		alter(&cfg)
	}
	all, err := allinone.New(t.Context(), cfg, allinone.Deps{
		Clock: clock.Real(), Store: store, Bucket: membucket.New(clock.Real()), Outside: tcpnet.New(),
		Disk: func(partition.NodeID) (vfs.FS, error) { return disk, nil }, Log: slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(), Tracers: noop.NewTracerProvider(), Rand: rand.Reader, Version: version.Version(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- all.Run(ctx) }()
	addrs := all.Addrs()
	c := &cluster{t: t, dir: dir, addrs: addrs, stop: func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
		ended <- nil
	}}
	t.Cleanup(c.stop)
	c.env.Environ = []string{"SQ_ADDR=" + addrs.Capnp, "SQ_API=" + addrs.GRPC, "SQ_HTTP=" + addrs.HTTP}
	waiting, done := context.WithTimeout(ctx, 30*time.Second)
	defer done()
	if err := all.WaitReady(waiting); err != nil {
		t.Fatal(err)
	}
	return c
}

// log gives the directory of the only replica's log.
func (c *cluster) log() string {
	c.t.Helper()
	found, err := filepath.Glob(filepath.Join(c.dir, "broker-1", "replicas", "*", "log"))
	if err != nil || len(found) != 1 {
		c.t.Fatalf("%v %v", found, err)
	}
	return found[0]
}

// part gives the first segment's file with this suffix.
func (c *cluster) part(suffix string) string {
	return filepath.Join(c.log(), fmt.Sprintf("%020d", 0)+suffix)
}

// The files of a broker that ran, as people and programs see them.
func TestInspect(t *testing.T) {
	c := startCluster(t, nil)
	ok(t, stdin(c.env, "1\n2\n3\n"), "produce", "orders", "--format", "raw")
	ok(t, c.env, "topic", "seal", "orders")
	ok(t, c.env, "produce", "orders", "last", "--key", "k")
	active := ok(t, c.env, "inspect", "verify", c.dir)
	if !strings.HasPrefix(active, "clean") || !strings.Contains(active, "a broker is using it") {
		t.Errorf("while it runs: %s", active)
	}
	c.stop()

	stopped := ok(t, c.env, "inspect", "verify", c.dir)
	if !strings.Contains(stopped, "1 replicas, 2 segments") || !strings.Contains(stopped, "1 digests") || strings.Contains(stopped, "using") {
		t.Errorf("stopped: %s", stopped)
	}
	var frames []map[string]any
	for line := range strings.Lines(ok(t, c.env, "inspect", "segment", c.part(".log"), "-o", "json")) {
		var f map[string]any
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
	}
	if frames[0]["control"] != "epochStart" || frames[0]["offset"] != 0.0 || frames[1]["position"] != frames[0]["bytes"] || frames[1]["body"] != "records" {
		t.Errorf("%v", frames)
	}
	second, err := filepath.Glob(filepath.Join(c.log(), "*.log"))
	if err != nil || len(second) != 2 {
		t.Fatal(second, err)
	}
	if text := ok(t, c.env, "inspect", "segment", second[1]); !strings.Contains(text, "seal  base=0 end=") || !strings.Contains(text, "tierCommit  segments=[") {
		t.Errorf("%s", text)
	}
	raw, err := os.ReadFile(second[1])
	if err != nil {
		t.Fatal(err)
	}
	if got := ok(t, c.env, "inspect", "segment", second[1], "--raw"); got != string(raw) {
		t.Errorf("raw gave %d bytes of %d", len(got), len(raw))
	}
	for args, want := range map[string]string{
		"index " + c.part(".idx"):                        "hasRecords       true",
		"snapshot " + c.part(".snap"):                    "tieredSegments   0",
		"journal " + c.dir + "/broker-1/journal":         "  partition=",
		"journal " + c.dir + "/broker-1/journal -o json": `"kind":"mark"`,
		"index " + c.part(".idx") + " -o json":           `"entries":[{"offset":0,"position":0`,
		"snapshot " + c.part(".snap") + " -o json":       `"epochs":[{"epoch":1,"start":0}]`,
	} {
		if out := ok(t, c.env, append([]string{"inspect"}, strings.Fields(args)...)...); !strings.Contains(out, want) {
			t.Errorf("%s: want %q in\n%s", args, want, out)
		}
	}
}

func (c *cluster) flip(name string, at int64) {
	c.t.Helper()
	file, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	defer file.Close()
	p := make([]byte, 1)
	if _, err := file.ReadAt(p, at); err != nil {
		c.t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{p[0] ^ 1}, at); err != nil {
		c.t.Fatal(err)
	}
}

// Damage ends with 1 and says where; what cannot be looked at ends with 2.
func TestInspectDamage(t *testing.T) {
	c := startCluster(t, nil)
	ok(t, stdin(c.env, "1\n2\n3\n"), "produce", "orders", "--format", "raw")
	ok(t, c.env, "topic", "seal", "orders")
	c.stop()
	c.flip(c.part(".log"), 600)

	code, out, errs := run(t, c.env, "inspect", "verify", c.dir, "-o", "json")
	var found struct {
		Clean   bool
		Reports []struct {
			Findings []struct {
				File, Class      string
				Offset, Position int64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil || code != 1 || found.Clean || !strings.Contains(errs, "1 bad place in") {
		t.Fatalf("code %d, %v, %s %s", code, err, out, errs)
	}
	f := found.Reports[0].Findings[0]
	if f.File != c.part(".log") || f.Class != "corrupt" || f.Offset < 1 || f.Position < 400 {
		t.Errorf("%+v", f)
	}
	code, out, errs = run(t, c.env, "inspect", "segment", c.part(".log"))
	if code != 1 || !strings.Contains(out, "epochStart") || !strings.Contains(errs, "sq inspect verify "+c.part(".log")) {
		t.Errorf("code %d: %s %s", code, out, errs)
	}
	code, out, _ = run(t, c.env, "doctor", "--data-dir", c.dir)
	if !strings.Contains(out, "ok    data directory") || code != 2 { // a quick look sees headers only, and nothing runs
		t.Errorf("code %d: %s", code, out)
	}
	c.flip(c.part(".log"), 500)
	if _, out, _ = run(t, c.env, "doctor", "--data-dir", c.dir); !strings.Contains(out, "fail  data directory") {
		t.Errorf("a bad header: %s", out)
	}
	for _, args := range [][]string{{"verify", c.dir + "/nothing"}, {"verify", t.TempDir()}, {"segment", "nothing"}, {"verify"}, {}} {
		if code, _, errs := run(t, c.env, append([]string{"inspect"}, args...)...); code != 2 || errs == "" {
			t.Errorf("%v: code %d %q", args, code, errs)
		}
	}
}

// results runs doctor and gives its checks by name and status.
func results(t *testing.T, c *cluster, args ...string) (int, map[string]string) {
	t.Helper()
	code, out, errs := run(t, c.env, append([]string{"doctor", "-o", "json", "--metrics", c.addrs.Admin}, args...)...)
	var answer struct {
		Status string
		Checks []struct{ Check, Status, Text, Next string }
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || errs != "" {
		t.Fatalf("%v %q %q", err, out, errs)
	}
	worst := map[string]string{}
	for _, check := range answer.Checks {
		if (check.Status == "ok") != (check.Next == "") {
			t.Errorf("%+v: what is wrong has something to do next, and nothing else", check)
		}
		if worst[check.Check] == "" || worst[check.Check] == "ok" {
			worst[check.Check] = check.Status
		}
	}
	if want := map[int]string{0: "ok", 1: "warn", 2: "fail"}[code]; answer.Status != want {
		t.Errorf("code %d, status %s", code, answer.Status)
	}
	return code, worst
}

func notOK(checks map[string]string) []string {
	var all []string
	for check, status := range checks {
		if status != "ok" && check != "disk" && check != "open files" { // of the machine that the test runs on
			all = append(all, check+" "+status)
		}
	}
	slices.Sort(all)
	return all
}

func TestDoctor(t *testing.T) {
	c := startCluster(t, nil)
	ok(t, c.env, "produce", "orders", "1")
	_, checks := results(t, c, "--data-dir", c.dir)
	if bad := notOK(checks); len(bad) > 0 {
		t.Errorf("all is well, but %v", bad)
	}
	for _, check := range []string{
		"data port", "control port", "REST port", "coordinator", "brokers", "leaders", "tierers", "clock", "version", "disk",
		"damage", "partitions", "durability", "data directory",
	} {
		if checks[check] == "" {
			t.Errorf("%q was not looked at", check)
		}
	}
	ok(t, c.env, "topic", "create", "slack", "--durability", "relaxed")
	code, checks := results(t, c)
	for end := time.Now().Add(30 * time.Second); checks["leaders"] != "ok" && time.Now().Before(end); { // its election may still be under way
		code, checks = results(t, c)
	}
	if bad := notOK(checks); code == 0 || !slices.Equal(bad, []string{"durability warn"}) {
		t.Errorf("a relaxed topic: code %d, %v", code, bad)
	}
	late := c.env
	late.Now = func() time.Time { return time.Now().Add(-time.Minute) }
	if _, out, _ := run(t, late, "doctor"); !strings.Contains(out, "the gateway's clock differs by") || !strings.Contains(out, "the newest record was appended") {
		t.Errorf("a wrong clock: %s", out)
	}
	c.stop()
	code, checks = results(t, c)
	if bad := notOK(checks); code != 2 || !slices.Equal(bad, []string{"REST port fail", "control port fail", "data port fail"}) {
		t.Errorf("nothing runs: code %d, %v", code, bad)
	}
}

// A broker that acknowledges before it syncs makes acks weaker than topics ask for.
func TestDoctorSeesAWeakSyncPolicy(t *testing.T) {
	c := startCluster(t, func(cfg *allinone.Config) { cfg.SyncPolicy = "1s" })
	ok(t, c.env, "topic", "create", "orders")
	if code, checks := results(t, c); code == 0 || checks["durability"] != "warn" {
		t.Errorf("code %d, %v", code, checks)
	}
}
