package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
)

// rot flips bytes in the middle of a node's segment file.
func (n *clusterNode) rot(base partition.Offset) {
	n.c.t.Helper()
	file, err := n.mem.Open(logDir+"/"+segment.Name(base, segment.LogPart), vfs.Write)
	if err != nil {
		n.c.t.Fatal(err)
	}
	defer file.Close()
	size, _ := file.Size()
	if _, err := file.WriteAt([]byte("rotten rotten rotten"), size/2); err != nil {
		n.c.t.Fatal(err)
	}
	if err := file.Sync(); err != nil {
		n.c.t.Fatal(err)
	}
}

// A follower whose segment has rotted gets what was there from the leader, whatever segment it is: its files are those of the others again, it
// vouches for everything, and may lead.
func TestDamageIsRepairedFromTheLeader(t *testing.T) {
	for _, which := range []string{"first", "last", "newest sealed"} {
		t.Run(which, func(t *testing.T) {
			c := newCluster(t, 3, func(c *cluster) { c.topic.SegmentBytes = 64 << 10 })
			one, two, three := c.nodes[0], c.nodes[1], c.nodes[2]
			c.elect(one)
			var want []string
			for i := range 30 {
				want = append(want, fmt.Sprintf("%d %s", i, strings.Repeat("x", 9<<10)))
			}
			one.mustPublish(want...)
			c.converged()
			for range 60 { // for the marks to be kept
				c.pass(20_000_000)
			}
			records, _ := three.r.Evidence()
			if err := three.journal.Put(records...); err != nil {
				t.Fatal(err)
			}
			if err := three.journal.Sync(); err != nil {
				t.Fatal(err)
			}
			segments := three.r.wal.Segments()
			base := map[string]partition.Offset{
				"first": segments[0].Base, "last": segments[len(segments)-1].Base, "newest sealed": segments[len(segments)-2].Base,
			}[which]
			three.kill()
			three.rot(base)
			three.start()
			if which != "first" && len(three.r.Faults()) == 0 {
				t.Log("recovery did not read the damage")
			}
			three.r.Examine(base)
			c.settle()
			if len(three.r.Faults()) == 0 {
				t.Fatal("there is no damage")
			}
			c.tell()
			one.mustPublish("more")
			want = append(want, "more")
			c.until("the repair", func() bool { return len(three.r.Faults()) == 0 })
			c.converged()
			if diff := cmp.Diff(one.sealedFiles(), three.sealedFiles()); diff != "" {
				t.Errorf("other sealed files: %s", diff)
			}
			two.kill()
			one.mustPublish("with 3")
			one.kill()
			two.start()
			c.elect(three)
			if diff := cmp.Diff(append(want, "with 3"), three.read(0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
