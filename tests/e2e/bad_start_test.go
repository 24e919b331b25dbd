package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/cluster"
)

// notReady wants a process to run, live, and say on /readyz what it lacks.
func notReady(t *testing.T, c *cluster.Cluster, name, lacks string) {
	t.Helper()
	p := c.Process(name)
	var status int
	var body string
	eventually(t, 15*time.Second, func() bool {
		status, body = c.Get(t, p.Ready)
		return status == http.StatusServiceUnavailable && strings.Contains(strings.ToLower(body), lacks)
	}, func() any { return fmt.Sprintf("%s: %d %s\n%s", p.Ready, status, body, p.Log()) })
	if status, body := c.Get(t, strings.Replace(p.Ready, "/readyz", "/livez", 1)); status != http.StatusOK {
		t.Errorf("%s is not live: %d %s", name, status, body)
	}
}

func TestS3UnreachableAtStart(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes, Hold: []string{"s3"}})
	c.AwaitReady(t, "coordinator", "broker", "gateway")
	notReady(t, c, "tierer", "object store")
	c.MustSQ(t, "topic", "create", "orders")
	c.MustSQ(t, "produce", "orders", "without a bucket")
	if got := string(consume(t, c, "orders")); got != "without a bucket" {
		t.Errorf("read %q", got)
	}
	c.MustSQ(t, "topic", "seal", "orders")
	sealed := c.Partition(t, "orders").SealedEnd
	c.Restart(t, "s3")
	c.AwaitReady(t)
	eventually(t, tierTimeout, func() bool { return c.Partition(t, "orders").ExportedEnd >= sealed && sealed > 0 },
		func() any { return c.Partition(t, "orders") })
}

func TestEtcdUnreachableAtStart(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes, Hold: []string{"etcd"}})
	for _, name := range []string{"coordinator", "broker", "tierer", "gateway"} {
		notReady(t, c, name, "etcd")
	}
	var calls sync.WaitGroup // at once: a gateway waits a while for what may come
	calls.Go(func() { refused(t, c, nil, []string{"coordinator"}, "topic", "create", "orders") })
	calls.Go(func() {
		refusedREST(t, c, http.MethodGet, "/v1/topics", "", http.StatusServiceUnavailable, "UNAVAILABLE")
	})
	calls.Wait()
	c.Restart(t, "etcd")
	c.AwaitReady(t)
	c.MustSQ(t, "topic", "create", "orders")
	c.MustSQ(t, "produce", "orders", "at last")
	if got := string(consume(t, c, "orders")); got != "at last" {
		t.Errorf("read %q", got)
	}
}

// ends runs a process like that of the cluster, with other flags, and wants it to end by itself with a message.
func ends(t *testing.T, p *cluster.Process, code int, says string, replace map[string]string) {
	t.Helper()
	flags := p.Elsewhere()
	maps.Copy(flags, replace)
	cmd := p.Twin(t.Context(), flags)
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); !exited || cmd.ProcessState.ExitCode() != code { //nolint:errorlint // Run gives it bare
		t.Fatalf("%v, want code %d: %s", err, code, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; !strings.Contains(strings.ToLower(last), says) {
		t.Errorf("the last line lacks %q: %s", says, out)
	}
	if strings.Contains(string(out), "goroutine ") {
		t.Errorf("a stack: %s", out)
	}
}

func TestDataDirInUse(t *testing.T) {
	eachShape(t, func(t *testing.T, c *cluster.Cluster) {
		c.MustSQ(t, "topic", "create", "orders")
		c.MustSQ(t, "produce", "orders", "before")
		ends(t, c.Process("broker"), 1, "in use", nil)
		c.MustSQ(t, "produce", "orders", "after")
		if got := string(consume(t, c, "orders")); got != "beforeafter" {
			t.Errorf("read %q", got)
		}
	})
}

func TestDataDirOfAnotherCluster(t *testing.T) {
	t.Parallel()
	a := cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes})
	b := cluster.Start(t, programs, cluster.Options{Shape: cluster.Processes})
	a.MustSQ(t, "topic", "create", "orders")
	a.MustSQ(t, "produce", "orders", "kept")
	a.Kill("broker")
	ends(t, a.Process("broker"), 1, "cluster", map[string]string{"etcd": b.Process("broker").Flag("etcd")})
	ends(t, b.Process("coordinator"), 1, "cluster", map[string]string{"cluster-id": "00000000-0000-4000-8000-000000000001"})
	a.Restart(t, "broker")
	if got := string(consume(t, a, "orders")); got != "kept" {
		t.Errorf("read %q", got)
	}
}

func TestBadConfiguration(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"sq-broker", "sq-coordinator", "sq-tierer", "sq-gateway"} {
		for says, args := range map[string][]string{
			"--no-such-flag":            {"--no-such-flag"},
			"lease-ttl":                 {"--lease-ttl", "never"},
			"http-host":                 {"--http-host", "nowhere"},
			"no such file or directory": {"--config", filepath.Join(t.TempDir(), "missing.yaml")},
		} {
			cmd := exec.CommandContext(t.Context(), programs.Path(program), append(args, "--node-id", "1")...)
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), says) || strings.Contains(string(out), "goroutine ") {
				t.Errorf("%s %v: %v: %s; want code 2 and %q", program, args, err, out, says)
			}
		}
	}
}
