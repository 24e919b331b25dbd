package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Shape is how SQ runs.
type Shape string

// The shapes.
const (
	AllInOne  Shape = "allinone"
	Processes Shape = "processes"
)

// Options say what to start.
type Options struct {
	Shape Shape
	// Hold names processes that are not started with the others, and whose dependants are not awaited then: the test does it.
	Hold []string
	// Args are further flags by process, or by kind: "broker" is for broker-1, broker-2 and so on, too.
	Args map[string][]string
	// Brokers, Coordinators and Gateways are how many there are of each, 0 = 1. Several of a kind have their number in their name.
	Brokers, Coordinators, Gateways int
	// Network gives each process an address of its own, and its links can be cut; nil = all are on 127.0.0.1. Of Processes only.
	Network *Network
}

// Cluster is a running SQ.
type Cluster struct {
	Programs *Programs
	Shape    Shape
	// Dir has everything: data of each process below its name, logs in logs.
	Dir string
	// DataAddr and GRPCAddr have the addresses of all gateways, as clients take them; RESTAddr is that of the first.
	DataAddr, GRPCAddr, RESTAddr string
	// RESTAddrs are of all gateways.
	RESTAddrs []string

	processes []*Process // in the order they start
	mu        struct {
		sync.Mutex
		expected []*regexp.Regexp
	}
}

// Start starts a cluster and waits until all of it is ready.
func Start(t testing.TB, programs *Programs, o Options) *Cluster {
	t.Helper()
	c := &Cluster{Programs: programs, Shape: o.Shape, Dir: t.TempDir()}
	for _, name := range []string{"logs", "s3/metadata", "s3/objects"} {
		if err := os.MkdirAll(filepath.Join(c.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	layout, err := newLayout(t.Context(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := layout.add(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.end(t) })
	for _, p := range c.processes {
		if slices.Contains(o.Hold, p.Name) {
			continue
		}
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if len(o.Hold) == 0 {
		c.AwaitReady(t)
	}
	return c
}

// AwaitReady returns when all processes, or the named, are ready.
func (c *Cluster) AwaitReady(t testing.TB, names ...string) {
	t.Helper()
	var wg sync.WaitGroup
	for _, p := range c.processes {
		if len(names) > 0 && !slices.Contains(names, p.Name) {
			continue
		}
		wg.Go(func() {
			if err := p.AwaitReady(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// Process gives a process by name, "sq" in AllInOne; "etcd", "s3", "coordinator", "broker", "tierer" or "gateway" in Processes, with its number
// behind it where there are several: "broker-1". In AllInOne each of these names is the one process.
func (c *Cluster) Process(name string) *Process {
	for _, p := range c.processes {
		if p.Name == name || c.Shape == AllInOne {
			return p
		}
	}
	panic("cluster: no process " + name)
}

// Names gives the names of the processes of a kind: "broker".
func (c *Cluster) Names(kind string) []string {
	var out []string
	for _, p := range c.processes {
		if p.kind == kind {
			out = append(out, p.Name)
		}
	}
	return out
}

// Kill ends a process by SIGKILL.
func (c *Cluster) Kill(name string) { c.Process(name).Kill() }

// Restart starts a process that has ended and waits until it is ready.
func (c *Cluster) Restart(t testing.TB, name string) {
	t.Helper()
	if err := c.Process(name).Start(); err != nil {
		t.Fatal(err)
	}
	c.AwaitReady(t, c.Process(name).Name)
}

// Supervise is Restart as a supervisor does it: a process that ends before it is ready is started again. A broker with an empty disk is refused
// for as long as its old registration lasts.
func (c *Cluster) Supervise(t testing.TB, name string) {
	t.Helper()
	p := c.Process(name)
	for deadline := time.Now().Add(readyTimeout); ; pause(t.Context(), 10*readyPoll) {
		err := p.Start()
		if err == nil {
			if err = p.AwaitReady(t.Context()); err == nil {
				return
			}
		}
		if p.Running() || time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// KillAll ends all of SQ's own processes by SIGKILL; etcd and the S3 server go on.
func (c *Cluster) KillAll() {
	for _, p := range c.processes {
		if p.own {
			p.Kill()
		}
	}
}

// StopAll ends all of SQ's own processes by SIGTERM, clients' side first; each must end in time and with code 0.
func (c *Cluster) StopAll(t testing.TB) {
	t.Helper()
	for _, p := range slices.Backward(c.processes) {
		if !p.own {
			continue
		}
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
}

// RestartAll starts what KillAll or StopAll ended and waits until all is ready.
func (c *Cluster) RestartAll(t testing.TB) {
	t.Helper()
	for _, p := range c.processes {
		if p.own {
			if err := p.Start(); err != nil {
				t.Fatal(err)
			}
		}
	}
	c.AwaitReady(t)
}

// Expect says that log lines that match are no fault.
func (c *Cluster) Expect(pattern string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.expected = append(c.mu.expected, regexp.MustCompile(pattern))
}

// end stops everything in reverse and reads the logs.
func (c *Cluster) end(t testing.TB) {
	c.StopAll(t)
	for _, p := range c.processes {
		p.Kill() // etcd and the S3 server
		for _, line := range c.Faults(p) {
			t.Errorf("log of %s: %s", p.Name, line)
		}
		if t.Failed() {
			t.Logf("end of the log of %s:\n%s", p.Name, p.tail())
		}
	}
}

// fatal is a line that no program of ours may ever log. Of others' errors only a panic counts: they log errors while they are stopped.
//
//nolint:gochecknoglobals // constant patterns
var (
	fatal = regexp.MustCompile(`^(panic:|fatal error:|goroutine \d+ \[|WARNING: DATA RACE)|panic serving|runtime error:`)
	bad   = regexp.MustCompile(`level=ERROR|"level":"ERROR"`)
)

// Faults gives the lines of a process's log that should not be there.
func (c *Cluster) Faults(p *Process) []string {
	c.mu.Lock()
	expected := slices.Clone(c.mu.expected)
	c.mu.Unlock()
	return faults(p.Log(), p.own, expected)
}

func faults(log string, own bool, expected []*regexp.Regexp) []string {
	var out []string
	for line := range strings.SplitSeq(log, "\n") {
		switch {
		case fatal.MatchString(line):
			out = append(out, line)
		case own && bad.MatchString(line) && !slices.ContainsFunc(expected, func(r *regexp.Regexp) bool { return r.MatchString(line) }):
			out = append(out, line)
		}
	}
	return out
}

// Result is how a command ended.
type Result struct {
	Code           int
	Stdout, Stderr []byte
}

// SQ runs the sq command against the cluster.
func (c *Cluster) SQ(t testing.TB, stdin []byte, args ...string) Result {
	t.Helper()
	return c.Run(t, stdin, "sq", args...)
}

// MustSQ is SQ that must end with code 0; it gives standard output.
func (c *Cluster) MustSQ(t testing.TB, args ...string) []byte {
	t.Helper()
	r := c.SQ(t, nil, args...)
	if r.Code != 0 {
		t.Fatalf("sq %s: code %d\n%s%s", strings.Join(args, " "), r.Code, shorten(r.Stdout), shorten(r.Stderr))
	}
	return r.Stdout
}

func shorten(text []byte) []byte { return text[:min(len(text), tailBytes)] }

// commandTimeout bounds a command of which a test waits for the end.
const commandTimeout = 60 * time.Second

// Run runs a program to its end, with the gateway's addresses in its environment.
func (c *Cluster) Run(t testing.TB, stdin []byte, program string, args ...string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Programs.Path(program), args...)
	cmd.Env = environment("SQ_ADDR="+c.DataAddr, "SQ_API="+c.GRPCAddr, "HOME="+c.Dir)
	cmd.Dir = c.Dir
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		t.Fatalf("%s %s: %v", program, strings.Join(args, " "), err)
	}
	if ctx.Err() != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), ctx.Err(), shorten(stdout.Bytes()), shorten(stderr.Bytes()))
	}
	if found := faults(stderr.String(), false, nil); len(found) > 0 {
		t.Errorf("%s %s: %s", program, strings.Join(args, " "), fmt.Sprint(found))
	}
	return Result{Code: cmd.ProcessState.ExitCode(), Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
}
