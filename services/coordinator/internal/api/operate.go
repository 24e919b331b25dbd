package api

import (
	"cmp"
	"context"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/operator"
)

// ReassignTopic plans other members.
func (s *Server) ReassignTopic(ctx context.Context, in *controlv1.ReassignTopicRequest) (*controlv1.ReassignTopicResponse, error) {
	ask := operator.Reassign{Topic: nameOf(in.GetNamespace(), in.GetTopic()), Cancel: in.GetCancel(), ValidateOnly: in.GetValidateOnly()}
	if in.Partition != nil {
		index, err := readIndex(in.GetPartition())
		if err != nil {
			return nil, err
		}
		ask.Partition = &index
	}
	for _, id := range in.GetBrokers() {
		broker, err := readBroker(id)
		if err != nil {
			return nil, err
		}
		ask.Brokers = append(ask.Brokers, broker)
	}
	if in.GetReplicationFactor() < 0 {
		return nil, fault.Errorf(fault.Invalid, "replicationFactor: %d is negative", in.GetReplicationFactor())
	}
	ask.Factor = uint32(in.GetReplicationFactor()) //nolint:gosec // checked right above.
	planned, err := s.operator.Reassign(ctx, ask)
	if err != nil {
		return nil, err //nolint:wrapcheck // operator says it all.
	}
	v, err := s.catalog.View()
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	out := &controlv1.ReassignTopicResponse{}
	for _, m := range planned {
		out.Moves = append(out.Moves, writeMove(v, m.ID, m.Assignment))
	}
	return out, nil
}

// TransferLeader hands a leadership over.
func (s *Server) TransferLeader(ctx context.Context, in *controlv1.TransferLeaderRequest) (*controlv1.Partition, error) {
	index, err := readIndex(in.GetPartition())
	if err != nil {
		return nil, err
	}
	var to partition.NodeID
	if in.GetBroker() != 0 {
		if to, err = readBroker(in.GetBroker()); err != nil {
			return nil, err
		}
	}
	a, err := s.operator.Transfer(ctx, nameOf(in.GetNamespace(), in.GetTopic()), index, to)
	if err != nil {
		return nil, err //nolint:wrapcheck // operator says it all.
	}
	return writePartition(int(index), topology.Versioned[topology.Assignment]{Value: a}), nil
}

// ForceRecover restarts a partition from the best replica that is left.
func (s *Server) ForceRecover(ctx context.Context, in *controlv1.ForceRecoverRequest) (*controlv1.Recovery, error) {
	index, err := readIndex(in.GetPartition())
	if err != nil {
		return nil, err
	}
	r, err := s.operator.Recover(ctx, nameOf(in.GetNamespace(), in.GetTopic()), index, in.GetAcceptLoss())
	if err != nil {
		return nil, err //nolint:wrapcheck // operator says it all.
	}
	return writeRecovery(r), nil
}

// CanStop tells whether a broker can be stopped.
func (s *Server) CanStop(ctx context.Context, in *controlv1.CanStopRequest) (*controlv1.CanStopResponse, error) {
	id, err := readBroker(in.GetBroker())
	if err != nil {
		return nil, err
	}
	safe, reason, err := s.operator.CanStop(ctx, id)
	if err != nil {
		return nil, err //nolint:wrapcheck // operator says it all.
	}
	return &controlv1.CanStopResponse{Safe: safe, Reason: reason}, nil
}

// DrainBroker moves leaders away.
func (s *Server) DrainBroker(ctx context.Context, in *controlv1.DrainBrokerRequest) (*controlv1.Broker, error) {
	return s.ordered(in.GetBroker(), func(id partition.NodeID) error { return s.operator.Drain(ctx, id, true) })
}

// UndrainBroker ends a drain.
func (s *Server) UndrainBroker(ctx context.Context, in *controlv1.UndrainBrokerRequest) (*controlv1.Broker, error) {
	return s.ordered(in.GetBroker(), func(id partition.NodeID) error { return s.operator.Drain(ctx, id, false) })
}

// DecommissionBroker moves replicas away.
func (s *Server) DecommissionBroker(ctx context.Context, in *controlv1.DecommissionBrokerRequest) (*controlv1.Broker, error) {
	return s.ordered(in.GetBroker(), func(id partition.NodeID) error { return s.operator.Decommission(ctx, id, in.GetValidateOnly()) })
}

// RecommissionBroker ends a decommission.
func (s *Server) RecommissionBroker(ctx context.Context, in *controlv1.RecommissionBrokerRequest) (*controlv1.Broker, error) {
	return s.ordered(in.GetBroker(), func(id partition.NodeID) error { return s.operator.Recommission(ctx, id) })
}

// ordered gives a broker as it is after an order.
func (s *Server) ordered(broker int64, order func(partition.NodeID) error) (*controlv1.Broker, error) {
	id, err := readBroker(broker)
	if err != nil {
		return nil, err
	}
	if err := order(id); err != nil {
		return nil, err
	}
	v, err := s.catalog.View()
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	for _, b := range s.brokers(v) {
		if b.ID == id {
			return writeBroker(b, v.Brokers[id].Orders.Value), nil
		}
	}
	return nil, fault.Errorf(fault.NotFound, "there is no broker %d", id)
}

// ListMoves lists changes of members.
func (s *Server) ListMoves(_ context.Context, in *controlv1.ListMovesRequest) (*controlv1.ListMovesResponse, error) {
	limit := int(in.GetPageSize())
	switch {
	case limit < 0 || limit > catalog.PageSizeMax:
		return nil, fault.Errorf(fault.Invalid, "pageSize: %d is outside 0 to %d", limit, catalog.PageSizeMax)
	case limit == 0:
		limit = catalog.PageSizeDefault
	}
	v, err := s.catalog.View()
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	moves := operator.Moves(v)
	out := &controlv1.ListMovesResponse{Total: int32(len(moves))} //nolint:gosec // a count.
	for _, m := range moves[:min(limit, len(moves))] {
		out.Moves = append(out.Moves, writeMove(v, m.ID, m.Assignment))
	}
	return out, nil
}

// ListRecoveries lists every forced recovery, the newest first.
func (s *Server) ListRecoveries(context.Context, *controlv1.ListRecoveriesRequest) (*controlv1.ListRecoveriesResponse, error) {
	v, err := s.catalog.View()
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	var all []topology.Recovery
	for _, r := range v.Recoveries {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b topology.Recovery) int {
		return cmp.Or(b.Time.Compare(a.Time), slices.Compare(a.Topic[:], b.Topic[:]), cmp.Compare(a.Index, b.Index))
	})
	out := &controlv1.ListRecoveriesResponse{}
	for _, r := range all {
		out.Recoveries = append(out.Recoveries, writeRecovery(r))
	}
	return out, nil
}

func readBroker(id int64) (partition.NodeID, error) {
	if id < 1 {
		return 0, fault.Errorf(fault.Invalid, "broker: %d is no broker's id, which is 1 and up", id)
	}
	return partition.NodeID(id), nil
}

func readIndex(index int32) (uint32, error) {
	if index < 0 {
		return 0, fault.Errorf(fault.Invalid, "partition: %d is negative", index)
	}
	return uint32(index), nil
}

func writeMove(v *topology.View, id partition.ID, a topology.Assignment) *controlv1.Move {
	name := v.Topics[id.Topic].Value.FullName()
	out := &controlv1.Move{
		Namespace: name.Namespace, Topic: name.Topic, Partition: int32(min(id.Index, math.MaxInt32)), //nolint:gosec // bounded in place.
		From: brokersOf(a.Members), Started: a.Started(),
	}
	if a.Moving != nil {
		out.To, out.PlanTime = brokersOf(a.Moving.Members), timestamppb.New(a.Moving.Planned)
		out.Reason = reasonOf(a.Moving.Why)
	}
	return out
}

func reasonOf(why topology.MoveReason) controlv1.MoveReason {
	switch why {
	case topology.MoveReassign:
		return controlv1.MoveReason_MOVE_REASON_REASSIGN
	case topology.MoveFactor:
		return controlv1.MoveReason_MOVE_REASON_REPLICATION_FACTOR
	case topology.MoveDecommission:
		return controlv1.MoveReason_MOVE_REASON_DECOMMISSION
	case topology.MoveLost:
		return controlv1.MoveReason_MOVE_REASON_LOST
	case topology.MoveDead:
		return controlv1.MoveReason_MOVE_REASON_DEAD
	default:
		return controlv1.MoveReason_MOVE_REASON_UNSPECIFIED
	}
}

func writeRecovery(r topology.Recovery) *controlv1.Recovery {
	out := &controlv1.Recovery{
		Namespace: r.Name.Namespace, Topic: r.Name.Topic, TopicId: r.Topic.String(), Partition: int32(min(r.Index, math.MaxInt32)), //nolint:gosec // bounded in place.
		Done: r.Epoch != 0, Epoch: signed(uint64(r.Epoch)), RecoverTime: timestamppb.New(r.Time),
		Survivor: signed(uint64(r.Survivor.Broker)), SurvivorEpoch: signed(uint64(r.LastEpoch)), SurvivorEnd: signed(uint64(r.End)),
		HighWatermark: signed(uint64(r.HighWatermark)), Loss: r.Loss,
	}
	if !r.Lineage.IsZero() {
		out.Lineage = r.Lineage.String()
	}
	for _, m := range r.Members {
		out.Members = append(out.Members, &controlv1.RecoveryMember{
			Broker: signed(uint64(m.Broker)), Replica: m.Replica.String(), Found: m.Found, LastEpoch: signed(uint64(m.LastEpoch)),
			End: signed(uint64(m.End)), HighWatermark: signed(uint64(m.HighWatermark)), Faulty: m.Faulty, Error: m.Error,
		})
	}
	return out
}

func brokersOf(set []partition.Member) []int64 {
	ids := make([]int64, len(set))
	for i, m := range set {
		ids[i] = signed(uint64(m.Broker))
	}
	return ids
}
