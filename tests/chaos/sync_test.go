package chaos

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/cluster"
)

// endTimeout bounds how long a broker may go on after a failed sync.
const endTimeout = 30 * time.Second

// TestFailedSync: the kernel fails one sync of a broker under load. The broker ends by itself and says that its disk failed; started again, it
// has all that was acknowledged.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	needsStrace(t)
	c := start(t, "")
	c.Expect(failedDisk.String())
	l := newLoad(t, c, "syncs", 1, "--segment-bytes", "64KiB")
	for _, fault := range []string{ // the n-th call of any one thread
		"fdatasync:error=EIO:when=1", // of the start
		"fdatasync:error=EIO:when=7",
		"fdatasync:error=EIO:when=25",
		"fsync:error=EIO:when=3", // of a directory or a new file
	} {
		l.await(50)
		c.Kill("broker")
		if code, said := endBy(t, c.Process("broker"), fault); code == 0 || !strings.Contains(said, "input/output error") {
			t.Errorf("%s: the broker ended with code %d and said %s", fault, code, said[max(0, len(said)-2000):])
		} else {
			t.Logf("%s: code %d: %s", fault, code, lastLine(said))
		}
		c.Restart(t, "broker")
		c.AwaitReady(t)
		l.readAll()
	}
	l.await(50)
	l.settle()
	t.Logf("%+v", l.history.Counts())
}

func needsStrace(t *testing.T) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), "strace", "-e", "trace=fdatasync", "-e", "inject=fdatasync:error=EIO", "true").CombinedOutput(); err != nil {
		t.Skipf("skipped, the kernel cannot be made to fail a sync: strace: %v: %s", err, out)
	}
}

// text is what a program writes.
type text struct {
	mu struct {
		sync.Mutex
		bytes.Buffer
	}
}

// Write implements io.Writer.
func (w *text) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.Write(p)
}

// String gives all so far.
func (w *text) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.String()
}

// endBy runs a process like p with a fault in it, until it ends; code and all that it wrote.
func endBy(t *testing.T, p *cluster.Process, fault string) (code int, said string) {
	t.Helper()
	// The shell stops before it becomes the broker, so that the fault is there from its first call on. The broker is a child of the test and
	// ends with it; strace only looks on.
	cmd := p.Twin(t.Context(), nil)
	cmd.Args = append([]string{"sh", "-c", `kill -STOP $$; exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	out := &text{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	state := func(field, want string) func() bool {
		return func() bool {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.SplitSeq(string(status), "\n") {
				if value, ok := strings.CutPrefix(line, field+":\t"); ok {
					return strings.HasPrefix(value, want)
				}
			}
			return false
		}
	}
	eventually(t, endTimeout, "the shell stops", state("State", "T"))
	call, _, _ := strings.Cut(fault, ":")
	trace := exec.CommandContext(t.Context(), "strace", "-f", "-p", strconv.Itoa(pid), "-o", "/dev/null", "-e", "trace="+call, "-e", "inject="+fault)
	if err := trace.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, endTimeout, "strace looks on", state("TracerPid", strconv.Itoa(trace.Process.Pid)))
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(endTimeout):
		_ = cmd.Process.Kill()
		<-ended
		t.Errorf("%s: the broker does not end within %v", fault, endTimeout)
	}
	_ = trace.Wait() // ends with the process
	return cmd.ProcessState.ExitCode(), out.String()
}

func lastLine(said string) string {
	said = strings.TrimSpace(said)
	return said[strings.LastIndexByte(said, '\n')+1:]
}
