package control

import (
	"context"

	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
)

// ReassignTopic implements controlv1.TopicServiceServer.
func (t *Topics) ReassignTopic(ctx context.Context, req *controlv1.ReassignTopicRequest) (*controlv1.ReassignTopicResponse, error) {
	planned, _, err := ask(ctx, t.coordinator, repeatable,
		func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.ReassignTopicResponse, error) {
			return c.ReassignTopic(ctx, req)
		})
	return planned, err
}

// TransferLeader implements controlv1.TopicServiceServer.
func (t *Topics) TransferLeader(ctx context.Context, req *controlv1.TransferLeaderRequest) (*controlv1.Partition, error) {
	// To any member: a repetition would hand it over once more.
	repeat := again(req.GetBroker() != 0)
	partition, _, err := ask(ctx, t.coordinator, repeat, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Partition, error) {
		return c.TransferLeader(ctx, req)
	})
	return partition, err
}

// ForceRecover implements controlv1.TopicServiceServer.
func (t *Topics) ForceRecover(ctx context.Context, req *controlv1.ForceRecoverRequest) (*controlv1.Recovery, error) {
	repeat := again(!req.GetAcceptLoss())
	recovery, _, err := ask(ctx, t.coordinator, repeat, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Recovery, error) {
		return c.ForceRecover(ctx, req)
	})
	return recovery, err
}

// CanStop implements controlv1.ClusterServiceServer.
func (c *Cluster) CanStop(ctx context.Context, req *controlv1.CanStopRequest) (*controlv1.CanStopResponse, error) {
	verdict, _, err := ask(ctx, c.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.CanStopResponse, error) {
		return c.CanStop(ctx, req)
	})
	return verdict, err
}

// order passes an order for a broker on. Repeating one changes nothing.
func (c *Cluster) order(ctx context.Context,
	call func(context.Context, coordinatorv1.CoordinatorServiceClient) (*controlv1.Broker, error),
) (*controlv1.Broker, error) {
	broker, _, err := ask(ctx, c.coordinator, repeatable, call)
	return broker, err
}

// DrainBroker implements controlv1.ClusterServiceServer.
func (c *Cluster) DrainBroker(ctx context.Context, req *controlv1.DrainBrokerRequest) (*controlv1.Broker, error) {
	return c.order(ctx, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Broker, error) {
		return c.DrainBroker(ctx, req)
	})
}

// UndrainBroker implements controlv1.ClusterServiceServer.
func (c *Cluster) UndrainBroker(ctx context.Context, req *controlv1.UndrainBrokerRequest) (*controlv1.Broker, error) {
	return c.order(ctx, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Broker, error) {
		return c.UndrainBroker(ctx, req)
	})
}

// DecommissionBroker implements controlv1.ClusterServiceServer.
func (c *Cluster) DecommissionBroker(ctx context.Context, req *controlv1.DecommissionBrokerRequest) (*controlv1.Broker, error) {
	return c.order(ctx, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Broker, error) {
		return c.DecommissionBroker(ctx, req)
	})
}

// RecommissionBroker implements controlv1.ClusterServiceServer.
func (c *Cluster) RecommissionBroker(ctx context.Context, req *controlv1.RecommissionBrokerRequest) (*controlv1.Broker, error) {
	return c.order(ctx, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Broker, error) {
		return c.RecommissionBroker(ctx, req)
	})
}

// ListMoves implements controlv1.ClusterServiceServer.
func (c *Cluster) ListMoves(ctx context.Context, req *controlv1.ListMovesRequest) (*controlv1.ListMovesResponse, error) {
	moves, _, err := ask(ctx, c.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.ListMovesResponse, error) {
		return c.ListMoves(ctx, req)
	})
	return moves, err
}

// ListRecoveries implements controlv1.ClusterServiceServer.
func (c *Cluster) ListRecoveries(ctx context.Context, req *controlv1.ListRecoveriesRequest) (*controlv1.ListRecoveriesResponse, error) {
	all, _, err := ask(ctx, c.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.ListRecoveriesResponse, error) {
		return c.ListRecoveries(ctx, req)
	})
	return all, err
}
