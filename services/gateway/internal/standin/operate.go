package standin

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

// ReassignTopic implements the service.
func (c *Coordinator) ReassignTopic(_ context.Context, req *controlv1.ReassignTopicRequest) (*controlv1.ReassignTopicResponse, error) {
	return &controlv1.ReassignTopicResponse{Moves: []*controlv1.Move{{Topic: req.GetTopic(), To: req.GetBrokers()}}}, nil
}

// TransferLeader implements the service.
func (c *Coordinator) TransferLeader(_ context.Context, req *controlv1.TransferLeaderRequest) (*controlv1.Partition, error) {
	return &controlv1.Partition{Partition: req.GetPartition(), Leader: max(req.GetBroker(), 1), Epoch: 2}, nil
}

// ForceRecover implements the service: what was recovered once needs no force again.
func (c *Coordinator) ForceRecover(_ context.Context, req *controlv1.ForceRecoverRequest) (*controlv1.Recovery, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, done := c.mu.requests["recovered"]; done {
		return nil, fault.Errorf(fault.Conflict, "it needs no force")
	}
	if req.GetAcceptLoss() {
		c.mu.requests["recovered"] = ""
	}
	return &controlv1.Recovery{Topic: req.GetTopic(), Partition: req.GetPartition(), Done: req.GetAcceptLoss()}, nil
}

// CanStop implements the service.
func (c *Coordinator) CanStop(_ context.Context, req *controlv1.CanStopRequest) (*controlv1.CanStopResponse, error) {
	return &controlv1.CanStopResponse{Safe: req.GetBroker() == 1, Reason: "it is said so"}, nil
}

// DrainBroker implements the service.
func (c *Coordinator) DrainBroker(_ context.Context, req *controlv1.DrainBrokerRequest) (*controlv1.Broker, error) {
	return &controlv1.Broker{Id: req.GetBroker(), State: controlv1.BrokerState_BROKER_STATE_DRAINING}, nil
}

// UndrainBroker implements the service.
func (c *Coordinator) UndrainBroker(_ context.Context, req *controlv1.UndrainBrokerRequest) (*controlv1.Broker, error) {
	return &controlv1.Broker{Id: req.GetBroker(), State: controlv1.BrokerState_BROKER_STATE_LIVE}, nil
}

// DecommissionBroker implements the service.
func (c *Coordinator) DecommissionBroker(_ context.Context, req *controlv1.DecommissionBrokerRequest) (*controlv1.Broker, error) {
	return &controlv1.Broker{Id: req.GetBroker(), State: controlv1.BrokerState_BROKER_STATE_DECOMMISSIONING}, nil
}

// RecommissionBroker implements the service.
func (c *Coordinator) RecommissionBroker(_ context.Context, req *controlv1.RecommissionBrokerRequest) (*controlv1.Broker, error) {
	return &controlv1.Broker{Id: req.GetBroker(), State: controlv1.BrokerState_BROKER_STATE_LIVE}, nil
}

// ListMoves implements the service.
func (c *Coordinator) ListMoves(context.Context, *controlv1.ListMovesRequest) (*controlv1.ListMovesResponse, error) {
	return &controlv1.ListMovesResponse{Total: 1, Moves: []*controlv1.Move{{Topic: "orders", To: []int64{1, 2, 3}, Started: true}}}, nil
}

// ListRecoveries implements the service.
func (c *Coordinator) ListRecoveries(context.Context, *controlv1.ListRecoveriesRequest) (*controlv1.ListRecoveriesResponse, error) {
	return &controlv1.ListRecoveriesResponse{Recoveries: []*controlv1.Recovery{{Topic: "orders", Done: true, Loss: "all of it"}}}, nil
}
