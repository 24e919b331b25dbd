package replica

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/libs/vfs/faultfs"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/services/broker/internal/install"
)

// trimmed makes a cluster of three whose third was away while the log was trimmed beyond its end.
func trimmed(t *testing.T) (c *cluster, want []string) {
	c = newCluster(t, 3, func(c *cluster) { c.topic.SegmentBytes = 16 << 10 })
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	c.elect(one)
	one.mustPublish("a", "b")
	c.converged()
	three.kill()
	for i := range 20 {
		want = append(want, fmt.Sprintf("%d %s", i, strings.Repeat("x", 10<<10)))
	}
	one.mustPublish(want...)
	c.converged(one, two)
	s := one.r.State()
	trim := make(chan error, 1)
	one.r.mail.Post(func() {
		one.r.trimTo(s.SealedEnd-4, func(err error) {
			one.r.kept.due = true
			trim <- err
		})
	})
	c.until("trim", func() bool { return len(trim) > 0 && one.r.State().LocalStart > 4 && two.r.State().LocalStart > 4 })
	if err := <-trim; err != nil {
		t.Fatal(err)
	}
	return c, want
}

// tail is what is read of want from the log start on.
func tail(want []string, got []string) []string { return want[max(len(want)-len(got), 0):] }

// A member that was away while the log was trimmed beyond its end begins anew at the leader's local start, and so does a new learner; both can
// lead then.
func TestInstallBelowTheLocalStart(t *testing.T) {
	c, want := trimmed(t)
	one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
	three.start()
	c.tell()
	c.converged(one, two, three)
	four := c.add(4)
	c.register.mu.Lock()
	c.register.mu.value.Learners = c.members(four)
	c.register.mu.revision++
	c.register.mu.Unlock()
	c.tell()
	c.converged(one, two, three, four)
	for _, n := range []*clusterNode{three, four} {
		if got, want := n.r.State().LocalStart, one.r.State().LocalStart; got != want {
			t.Errorf("the local log of %d starts at %d, the leader's at %d", n.self.Broker, got, want)
		}
		if diff := cmp.Diff(one.sealedFiles(), n.sealedFiles()); diff != "" {
			t.Errorf("%d has other sealed files: %s", n.self.Broker, diff)
		}
		names, err := n.mem.List(path.Dir(logDir))
		if err != nil || len(names) != 1 {
			t.Errorf("%d keeps %v, %v", n.self.Broker, names, err)
		}
		// It survives a restart, and leads.
		n.kill()
		n.start()
		c.elect(n, one, two, n)
		n.mustPublish(fmt.Sprintf("of %d", n.self.Broker))
		want = append(want, fmt.Sprintf("of %d", n.self.Broker))
		got := n.read(n.r.State().LogStart)
		if diff := cmp.Diff(tail(want, got), got); diff != "" || len(got) < 4 {
			t.Errorf("%d leads and has %d: %s", n.self.Broker, len(got), diff)
		}
		c.converged(one, two, n)
	}
}

// A power cut at any moment of an install leaves the old log or the new one, and the replica catches up (R18).
func TestR18InstallIsAtomic(t *testing.T) {
	for stop := 1; ; stop++ {
		c, _ := trimmed(t)
		one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
		var survivor *memfs.FS
		calls := 0
		three.wrap = func(mem *memfs.FS) vfs.FS {
			f := faultfs.New(mem, c.clock)
			f.Observe(func(call faultfs.Call) {
				if calls++; calls == stop {
					survivor = mem.Crash(rand.New(rand.NewPCG(uint64(stop), 7)))
				}
			})
			return f
		}
		three.start()
		calls = 0
		c.tell()
		c.until("the install", func() bool { return survivor != nil || three.r.State().LocalStart > 4 })
		if survivor == nil {
			if stop < 20 {
				t.Errorf("the install is over after %d calls of the file system", stop)
			}
			return
		}
		three.r, three.mem, three.wrap = nil, survivor, nil
		three.start()
		c.tell()
		c.converged(one, two, three)
		if _, at, err := install.Dir(three.mem, path.Dir(logDir)); err != nil || at.At != one.r.State().LocalStart {
			t.Errorf("power cut at call %d: the log begins at %d, %v", stop, at.At, err)
		}
	}
}
