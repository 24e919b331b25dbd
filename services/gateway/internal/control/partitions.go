package control

import (
	"context"
	"strconv"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// leaders gives what the View knows of a topic's partitions.
func leaders(table route.Table, topic topology.Topic) []*controlv1.Partition {
	states := make([]*controlv1.Partition, topic.Partitions)
	for i := range states {
		id := partition.ID{Topic: topic.ID, Index: partition.Index(i)}
		state := &controlv1.Partition{Partition: int32(i)}
		states[i] = state
		if assignment, ok := table.View().Partition(id); ok {
			state.Epoch = int64(assignment.Value.Epoch)
			for _, member := range assignment.Value.Members {
				state.Members = append(state.Members, int64(member.Broker))
			}
		}
		leader, err := table.Leader(id)
		if err != nil {
			state.Error = err.Error()
			continue
		}
		state.Leader, state.Active = int64(leader.Node), true
	}
	return states
}

// askLeaders adds what only the leaders know.
func (t *Topics) askLeaders(ctx context.Context, table route.Table, topic topology.Topic, states []*controlv1.Partition) {
	var group errgroup.Group
	group.SetLimit(t.limits.Leaders)
	for i, state := range states {
		id := partition.ID{Topic: topic.ID, Index: partition.Index(i)}
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, t.limits.StateTimeout)
			defer cancel()
			if !state.GetActive() {
				if why := t.caller.Unfit(ctx, id); why != nil {
					state.Error = why.Error()
				}
				return nil
			}
			got, err := t.caller.PartitionState(ctx, id)
			if err != nil {
				state.Active, state.Error = false, err.Error()
				return nil
			}
			fillState(state, got)
			fillReplicas(state, got, table.View())
			return nil
		})
	}
	_ = group.Wait() // the errors are in the states
}

func fillState(out *controlv1.Partition, in upstream.State) {
	out.Epoch, out.Active = max(out.GetEpoch(), int64(in.Epoch)), in.Active
	out.LogStart, out.LocalStart = int64(in.LogStart), int64(in.LocalStart)
	out.TierEnd, out.ExportedEnd, out.SealedEnd = int64(in.TierEnd), int64(in.ExportedEnd), int64(in.SealedEnd)
	out.HighWatermark, out.End, out.LocalBytes = int64(in.HighWatermark), int64(in.End), int64(in.SizeBytes)
	out.DamagedRanges = int32(min(in.Damaged, 1<<30))
	switch in.Durability {
	case wirecapnp.Durability_fsyncQuorum:
		out.Durability = "fsync-quorum"
	case wirecapnp.Durability_writtenQuorum:
		out.Durability = "written-quorum"
	default:
		out.Durability = "none"
	}
}

// fillReplicas shows the replicas as their leader sees them.
func fillReplicas(out *controlv1.Partition, in upstream.State, v *topology.View) {
	for _, r := range in.Replicas {
		shown := &controlv1.Replica{
			Broker: int64(r.Broker), Replica: r.ID.String(), Learner: r.Learner, Leader: int64(r.Broker) == out.GetLeader() && !r.Learner,
			Match: int64(r.Match), Lag: max(int64(in.End)-int64(r.Match), 0), HighWatermark: int64(r.HighWatermark), Live: v.Brokers[r.Broker].Live != nil,
		}
		if !shown.GetLeader() {
			shown.LastHeard = durationpb.New(r.LastHeard)
		}
		out.Replicas = append(out.Replicas, shown)
	}
}

// chosen finds the partition that a request names, or all.
func (t *Topics) chosen(ctx context.Context, namespace, topic string, index *int32) ([]partition.ID, error) {
	name := nameOf(namespace, topic)
	known, err := t.router.Await(ctx, name).Topic(name)
	if err != nil {
		return nil, err //nolint:wrapcheck // a fault.
	}
	if index != nil {
		if *index < 0 || uint32(*index) >= known.Partitions {
			return nil, fault.Errorf(fault.Invalid, "partition: topic %s has partitions 0 to %d, not %d", name, known.Partitions-1, *index)
		}
		return []partition.ID{{Topic: known.ID, Index: partition.Index(*index)}}, nil
	}
	ids := make([]partition.ID, known.Partitions)
	for i := range ids {
		ids[i] = partition.ID{Topic: known.ID, Index: partition.Index(i)}
	}
	return ids, nil
}

// each calls do for partitions, some at a time. What one partition's failure leaves undone elsewhere is finished by the same call again:
// sealing and trimming twice does no harm.
func (t *Topics) each(ctx context.Context, ids []partition.ID, do func(ctx context.Context, i int, id partition.ID) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(t.limits.Leaders)
	for i, id := range ids {
		group.Go(func() error { return fault.Wrap("partition "+strconv.FormatUint(uint64(id.Index), 10), do(ctx, i, id)) })
	}
	return group.Wait() //nolint:wrapcheck // a fault.
}

// SealTopic implements controlv1.TopicServiceServer.
func (t *Topics) SealTopic(ctx context.Context, req *controlv1.SealTopicRequest) (*controlv1.SealTopicResponse, error) {
	ids, err := t.chosen(ctx, req.GetNamespace(), req.GetTopic(), req.Partition)
	if err != nil {
		return nil, err
	}
	out := &controlv1.SealTopicResponse{Partitions: make([]*controlv1.SealTopicResponse_SealedPartition, len(ids))}
	err = t.each(ctx, ids, func(ctx context.Context, i int, id partition.ID) error {
		sealed, err := t.caller.Seal(ctx, id)
		out.Partitions[i] = &controlv1.SealTopicResponse_SealedPartition{
			Partition: int32(id.Index), SealedEnd: int64(sealed.End), Sealed: sealed.Sealed,
		}
		return err //nolint:wrapcheck // a fault.
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// TrimTopic implements controlv1.TopicServiceServer.
func (t *Topics) TrimTopic(ctx context.Context, req *controlv1.TrimTopicRequest) (*controlv1.TrimTopicResponse, error) {
	if err := checkTrim(req); err != nil {
		return nil, err
	}
	ids, err := t.chosen(ctx, req.GetNamespace(), req.GetTopic(), req.Partition)
	if err != nil {
		return nil, err
	}
	out := &controlv1.TrimTopicResponse{Partitions: make([]*controlv1.TrimTopicResponse_TrimmedPartition, len(ids))}
	err = t.each(ctx, ids, func(ctx context.Context, i int, id partition.ID) error {
		before, err := t.before(ctx, id, req)
		if err != nil {
			return err
		}
		trimmed, err := t.caller.Trim(ctx, id, before, req.GetLocalOnly())
		out.Partitions[i] = &controlv1.TrimTopicResponse_TrimmedPartition{
			Partition: int32(id.Index), LogStart: int64(trimmed.LogStart), LocalStart: int64(trimmed.LocalStart),
		}
		return err //nolint:wrapcheck // a fault.
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// checkTrim: what is deleted must be said without a doubt.
func checkTrim(req *controlv1.TrimTopicRequest) error {
	switch {
	case req.BeforeOffset != nil && req.GetBeforeTime() != nil:
		return fault.Errorf(fault.Invalid, "before_offset, before_time: only one of them can be set")
	case req.BeforeOffset == nil && req.GetBeforeTime() == nil && !req.GetLocalOnly():
		return fault.Errorf(fault.Invalid, "before_offset, before_time: one of them is needed, or local_only")
	case req.BeforeOffset != nil && req.GetBeforeOffset() < 0:
		return fault.Errorf(fault.Invalid, "before_offset: %d is negative", req.GetBeforeOffset())
	case req.BeforeOffset != nil && req.Partition == nil:
		return fault.Errorf(fault.Invalid, "partition: an offset needs one")
	}
	return checkTime(req.GetBeforeTime())
}

func checkTime(at *timestamppb.Timestamp) error {
	if at == nil {
		return nil
	}
	if err := at.CheckValid(); err != nil {
		return fault.Errorf(fault.Invalid, "before_time: %w", err)
	}
	return nil
}

// before gives the offset to trim to; 0 with local_only = all that the bucket covers.
func (t *Topics) before(ctx context.Context, id partition.ID, req *controlv1.TrimTopicRequest) (partition.Offset, error) {
	if req.GetBeforeTime() == nil {
		return partition.Offset(req.GetBeforeOffset()), nil
	}
	found, err := t.caller.ListOffsets(ctx, id, 0, upstream.At{Time: batch.Micros(req.GetBeforeTime().AsTime())})
	return found.Offset, err //nolint:wrapcheck // a fault.
}
