package durability

import (
	"fmt"
	"time"

	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
)

// Policy says when a broker syncs what it appended. The zero value is every batch: before the ack.
type Policy struct {
	// Interval > 0: at this interval, and acks do not wait.
	Interval time.Duration
	// None: when the operating system likes, and acks do not wait.
	None bool
}

// Parse reads "every-batch", "none" or a duration.
func Parse(s string) (Policy, error) {
	switch s {
	case "every-batch", "":
		return Policy{}, nil
	case "none":
		return Policy{None: true}, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Millisecond || d > time.Hour {
		return Policy{}, fmt.Errorf("sync policy %q: want every-batch, none, or a duration from 1ms to 1h", s)
	}
	return Policy{Interval: d}, nil
}

// String gives the form that Parse reads.
func (p Policy) String() string {
	switch {
	case p.None:
		return "none"
	case p.Interval > 0:
		return p.Interval.String()
	default:
		return "every-batch"
	}
}

// EveryBatch tells whether every group is synced before it counts.
func (p Policy) EveryBatch() bool { return !p.None && p.Interval == 0 }

// Counting says by which mark a majority is counted, and so what an ack says.
func (p Policy) Counting(d topology.Durability) (quorum.Counting, wirecapnp.Durability) {
	if p.EveryBatch() && d != topology.DurabilityRelaxed {
		return quorum.CountPersisted, wirecapnp.Durability_fsyncQuorum
	}
	return quorum.CountWritten, wirecapnp.Durability_writtenQuorum
}
