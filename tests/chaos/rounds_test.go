package chaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seedqueue/sq/tests/chaos/history"
	"github.com/seedqueue/sq/tests/cluster"
)

const (
	smokeRounds = 5
	// topicRounds is how long a topic lives: all of it is read in each round.
	topicRounds = 10
	volumeBytes = 3 << 30
)

// rounds is a run of TestRounds.
type rounds struct {
	t        *testing.T
	cluster  *cluster.Cluster
	volume   *volume // nil = the broker's data is where everything is
	rng      *rand.Rand
	seed     uint64
	faults   map[string]int
	counts   history.Counts
	verified int // records read back
}

// setting gives a number from the environment.
func setting(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestRounds: whatever is killed, what was acknowledged stays, once, where it was, in order.
func TestRounds(t *testing.T) {
	t.Parallel()
	r := &rounds{t: t, seed: setting(t, "SQ_CHAOS_SEED", rand.Uint64()>>1), faults: map[string]int{}}
	r.rng = rand.New(rand.NewPCG(r.seed, 0))
	n := int(setting(t, "SQ_CHAOS_ROUNDS", smokeRounds))
	dir, kind := "", os.Getenv("SQ_CHAOS_FS")
	if kind != "" {
		var err error
		if r.volume, err = newVolume(t, kind, volumeBytes); err != nil {
			t.Fatalf("no %s to run on: %v", kind, err)
		}
		dir = filepath.Join(r.volume.dir, "broker")
	} else {
		kind = "the file system of " + os.TempDir()
		dir = filepath.Join(t.TempDir(), "broker")
	}
	r.cluster = start(t, dir)
	t.Cleanup(func() { r.keep(dir) })
	began := time.Now()
	t.Logf("seed %d", r.seed)
	for done := 0; done < n; done += topicRounds {
		r.topic(done, min(topicRounds, n-done))
	}
	r.cluster.StopAll(t)
	if result := r.cluster.SQ(t, nil, "inspect", "verify", dir); result.Code != 0 {
		t.Errorf("sq inspect verify: code %d\n%s%s", result.Code, result.Stdout, result.Stderr)
	}
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(r.faults)) {
		faults = append(faults, fmt.Sprintf("%s %d", name, r.faults[name]))
	}
	t.Logf("%d rounds on %s in %v: %d records written, %d acknowledged, %d failed, %d unknown; %d read back; faults: %s; no violation",
		n, kind, time.Since(began).Round(time.Second), r.counts.Invoked, r.counts.Acked, r.counts.Failed, r.counts.Unknown, r.verified,
		strings.Join(faults, ", "))
}

// keep copies what a failed run leaves to SQ_CHAOS_KEEP.
func (r *rounds) keep(dir string) {
	to := os.Getenv("SQ_CHAOS_KEEP")
	if to == "" || !r.t.Failed() {
		return
	}
	r.cluster.KillAll()
	if out, err := exec.Command("cp", "-a", r.cluster.Dir, dir, to).CombinedOutput(); err != nil {
		r.t.Errorf("keep the data: %v: %s", err, out)
	}
}

// topic is the rounds that one topic lives.
func (r *rounds) topic(first, n int) {
	t := r.t
	name := fmt.Sprintf("rounds-%d", first)
	flags := []string{"--segment-bytes", []string{"64KiB", "256KiB", "1MiB"}[r.rng.IntN(3)]}
	if r.rng.IntN(2) == 0 {
		flags = append(flags, "--local-retention-bytes", "256KiB") // the rest is read from the bucket
	}
	l := newLoad(t, r.cluster, name, r.seed+uint64(first), flags...)
	for round := first; round < first+n; round++ {
		l.await(50 + r.rng.Int64N(300))
		var faults []string
		if round%2 == 1 {
			faults = append(faults, r.disturb())
			l.await(20)
		}
		faults = append(faults, r.kill())
		for _, fault := range faults {
			r.faults[fault]++
		}
		reading := l.readAll()
		r.verified += reading.Records()
		if testing.Verbose() {
			t.Logf("round %d: %s: %+v, %d read", round+1, strings.Join(faults, ", "), l.history.Counts(), reading.Records())
		}
	}
	r.verified += l.settle().Records()
	counts := l.history.Counts()
	r.counts.Invoked, r.counts.Acked = r.counts.Invoked+counts.Invoked, r.counts.Acked+counts.Acked
	r.counts.Failed, r.counts.Unknown = r.counts.Failed+counts.Failed, r.counts.Unknown+counts.Unknown
	l.end()
	r.cluster.MustSQ(t, "topic", "delete", name)
}

// disturb does something that is not the end of the broker's process by SIGKILL, and says what.
func (r *rounds) disturb() string {
	t, c := r.t, r.cluster
	switch name := []string{"etcd", "coordinator", "tierer", "gateway", "s3", "pause", "stop"}[r.rng.IntN(7)]; name {
	case "pause":
		pid := c.Process("broker").PID()
		r.signal(pid, syscall.SIGSTOP)
		r.sleep(2 * leaseTTL)
		r.signal(pid, syscall.SIGCONT)
		return "SIGSTOP of broker"
	case "stop":
		if err := c.Process("broker").Stop(); err != nil {
			t.Fatal(err)
		}
		c.Restart(t, "broker")
		return "SIGTERM of broker"
	default:
		c.Kill(name)
		r.sleep(time.Second)
		c.Restart(t, name)
		c.AwaitReady(t)
		return "kill of " + name
	}
}

// kill ends the broker without warning, starts it again, and says how it was.
func (r *rounds) kill() string {
	t, c := r.t, r.cluster
	r.sleep(50 * time.Millisecond)
	how := r.rng.IntN(100)
	switch {
	case how < 30 && r.volume != nil:
		// The process stands still before: while a file system is shut down, ext4 and xfs may still call a sync done. In a real power cut nobody
		// hears that. A kill would let what is in the kernel come to its end.
		r.freeze(c.Process("broker").PID())
		if err := r.volume.cut(); err != nil {
			t.Fatal(err)
		}
		c.Kill("broker")
		if err := r.volume.remount(); err != nil {
			t.Fatal(err)
		}
		c.Restart(t, "broker")
		c.AwaitReady(t)
		return "power cut of broker"
	case how < 45:
		c.KillAll()
		c.RestartAll(t)
		return "kill of all"
	case how < 60:
		c.Kill("broker")
		for range 1 + r.rng.IntN(3) { // while it recovers
			if err := c.Process("broker").Start(); err != nil {
				t.Fatal(err)
			}
			r.sleep(300 * time.Millisecond)
			c.Kill("broker")
		}
		c.Restart(t, "broker")
		c.AwaitReady(t)
		return "kill of broker, again while it starts"
	default:
		c.Kill("broker")
		c.Restart(t, "broker")
		c.AwaitReady(t)
		return "kill of broker"
	}
}

// freeze stops a process and returns when none of its threads runs its code any more: they are stopped, or in a call that they do not return from.
func (r *rounds) freeze(pid int) {
	r.signal(pid, syscall.SIGSTOP)
	eventually(r.t, patience, "all threads of the broker are stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil {
			r.t.Fatal(err)
		}
		for _, thread := range threads {
			stat, err := os.ReadFile(thread)
			if err != nil {
				continue // it has ended
			}
			_, state, _ := strings.Cut(string(stat), ") ")
			if !strings.HasPrefix(state, "T") && !strings.HasPrefix(state, "D") {
				return false
			}
		}
		return len(threads) > 0
	})
}

// sleep lets up to d pass.
func (r *rounds) sleep(d time.Duration) { time.Sleep(time.Duration(r.rng.Int64N(int64(d)))) }

func (r *rounds) signal(pid int, sig syscall.Signal) {
	if pid == 0 {
		r.t.Fatal("the broker does not run")
	}
	if err := syscall.Kill(pid, sig); err != nil {
		r.t.Fatal(err)
	}
}
