package e2e

import (
	"testing"

	"github.com/seedqueue/sq/tests/cluster"
)

// several is SQ as it is meant to run: whatever is one of, may go.
func several(t *testing.T, o cluster.Options) *cluster.Cluster {
	t.Helper()
	o.Shape, o.Brokers, o.Coordinators, o.Gateways = cluster.Processes, 3, 2, 2
	return cluster.Start(t, programs, o)
}

// TestProcessesOfWhichThereAreSeveral: records go in and out while each coordinator and each gateway is gone in turn, and come back from
// brokers that were killed.
func TestProcessesOfWhichThereAreSeveral(t *testing.T) {
	t.Parallel()
	c := several(t, cluster.Options{})
	files := inputs(t)
	for i, kind := range []string{"coordinator", "gateway"} {
		for _, name := range c.Names(kind) {
			step(t, "without "+name, func(t *testing.T) {
				c.Kill(name)
				for _, in := range files {
					if i == 1 {
						consumeAll(t, c, []input{in})
						continue
					}
					in.topic += "-" + name
					c.MustSQ(t, "topic", "create", in.topic, "--partitions", "1")
					c.MustSQ(t, "produce", in.topic, "-f", in.path, "--format", "raw")
				}
				c.Restart(t, name)
			})
		}
	}
}
