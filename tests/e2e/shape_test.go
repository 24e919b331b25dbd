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

// TestProcessesOfWhichThereAreSeveral: topics are made and records go in and out while each coordinator and each gateway is gone in turn.
func TestProcessesOfWhichThereAreSeveral(t *testing.T) {
	t.Parallel()
	c := several(t, cluster.Options{})
	for _, kind := range []string{"coordinator", "gateway"} {
		for _, name := range c.Names(kind) {
			step(t, "without "+name, func(t *testing.T) {
				c.Kill(name)
				for _, in := range inputs(t) {
					in.topic += "-" + name
					c.MustSQ(t, "topic", "create", in.topic)
					c.MustSQ(t, "produce", in.topic, "-f", in.path, "--format", "raw")
					consumeAll(t, c, []input{in})
				}
				c.Restart(t, name)
			})
		}
	}
}
