package sim

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

type started struct {
	epoch       partition.Epoch
	incarnation partition.Incarnation
}

func epochStart(c batchcapnp.Control) (started, bool) {
	if c.Which() != batchcapnp.Control_Which_epochStart {
		return started{}, false
	}
	s, err := c.EpochStart()
	if err != nil {
		return started{}, false
	}
	return started{partition.Epoch(s.Epoch()), partition.Incarnation(s.Incarnation())}, true
}
