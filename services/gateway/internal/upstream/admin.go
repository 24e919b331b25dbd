package upstream

import (
	"context"
	"math"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Sealed is the answer to Seal.
type Sealed struct {
	End    partition.Offset // of the sealed part
	Sealed bool             // false: there was nothing to seal
}

// Seal closes and seals the open segment of a partition. Repeating it seals nothing twice. The error is a fault.
func (c *Caller) Seal(ctx context.Context, id partition.ID) (Sealed, error) {
	reply, err := c.toLeader(ctx, id, func(req wirecapnp.Request, _ partition.Epoch) error {
		seal, err := req.NewSeal()
		if err != nil {
			return err //nolint:wrapcheck // frame says what it was building.
		}
		seal.SetPartition(uint32(id.Index))
		return setTopic(seal.NewTopic, id.Topic)
	})
	if err != nil {
		return Sealed{}, err
	}
	defer reply.Release()
	seal, err := reply.Response.Seal()
	if err != nil {
		return Sealed{}, unreadable(err)
	}
	return Sealed{End: partition.Offset(seal.SealedEnd()), Sealed: seal.Sealed()}, nil
}

// Trimmed is the answer to Trim.
type Trimmed struct{ LogStart, LocalStart partition.Offset }

// Trim deletes the records before an offset, or only frees the local disk of what the bucket covers. Repeating it trims nothing twice.
// The error is a fault.
func (c *Caller) Trim(ctx context.Context, id partition.ID, before partition.Offset, localOnly bool) (Trimmed, error) {
	reply, err := c.toLeader(ctx, id, func(req wirecapnp.Request, _ partition.Epoch) error {
		trim, err := req.NewTrim()
		if err != nil {
			return err //nolint:wrapcheck // frame says what it was building.
		}
		trim.SetPartition(uint32(id.Index))
		trim.SetBeforeOffset(uint64(before))
		trim.SetLocalOnly(localOnly)
		return setTopic(trim.NewTopic, id.Topic)
	})
	if err != nil {
		return Trimmed{}, err
	}
	defer reply.Release()
	trim, err := reply.Response.Trim()
	if err != nil {
		return Trimmed{}, unreadable(err)
	}
	return Trimmed{LogStart: partition.Offset(trim.LogStart()), LocalStart: partition.Offset(trim.LocalStart())}, nil
}

// State is a partition as its leader sees it.
type State struct {
	Epoch                                                      partition.Epoch
	LogStart, LocalStart, TierEnd, ExportedEnd, SealedEnd, End partition.Offset
	HighWatermark                                              partition.Offset
	SizeBytes                                                  uint64
	Durability                                                 wirecapnp.Durability
	Active                                                     bool
	Damaged                                                    int       // ranges of the leader's log that cannot be read
	Replicas                                                   []Replica // members and learners
}

// Replica is one as its leader sees it.
type Replica struct {
	Broker        partition.NodeID
	ID            partition.UUID
	Learner       bool
	Match         partition.Offset // up to here it has the leader's log on disk
	HighWatermark partition.Offset // the last that it was told
	LastHeard     time.Duration    // since it was heard
}

// PartitionState asks a partition's leader about it. The error is a fault.
func (c *Caller) PartitionState(ctx context.Context, id partition.ID) (State, error) {
	reply, err := c.toLeader(ctx, id, func(req wirecapnp.Request, _ partition.Epoch) error {
		state, err := req.NewPartitionState()
		if err != nil {
			return err //nolint:wrapcheck // frame says what it was building.
		}
		state.SetPartition(uint32(id.Index))
		return setTopic(state.NewTopic, id.Topic)
	})
	if err != nil {
		return State{}, err
	}
	defer reply.Release()
	s, err := reply.Response.PartitionState()
	if err != nil {
		return State{}, unreadable(err)
	}
	replicas, err := readReplicas(s)
	if err != nil {
		return State{}, unreadable(err)
	}
	return State{
		Epoch: partition.Epoch(s.Epoch()), LogStart: partition.Offset(s.LogStart()), LocalStart: partition.Offset(s.LocalStart()),
		TierEnd: partition.Offset(s.TierEnd()), ExportedEnd: partition.Offset(s.ExportedEnd()), SealedEnd: partition.Offset(s.SealedEnd()),
		End: partition.Offset(s.End()), HighWatermark: partition.Offset(s.HighWatermark()), SizeBytes: s.SizeBytes(),
		Durability: s.Durability(), Active: s.Active(), Damaged: int(s.Damaged()), Replicas: replicas,
	}, nil
}

func readReplicas(s wirecapnp.PartitionState) ([]Replica, error) {
	list, err := s.Replicas()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says what it is.
	}
	replicas := make([]Replica, list.Len())
	for i := range replicas {
		r := list.At(i)
		id, err := r.Replica()
		if err != nil {
			return nil, err //nolint:wrapcheck // the caller says what it is.
		}
		replicas[i] = Replica{
			Broker: partition.NodeID(r.Broker()), ID: partition.UUIDOf(id.Hi(), id.Lo()), Learner: r.Learner(),
			Match: partition.Offset(r.Match()), HighWatermark: partition.Offset(r.HighWatermark()),
			LastHeard: time.Duration(min(r.LastHeardMillis(), math.MaxInt32)) * time.Millisecond,
		}
	}
	return replicas, nil
}

func unreadable(err error) error { return fault.Errorf(fault.Internal, "read an answer: %w", err) }
