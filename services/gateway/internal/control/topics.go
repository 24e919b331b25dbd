package control

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// Topics implements controlv1.TopicServiceServer.
type Topics struct {
	controlv1.UnimplementedTopicServiceServer

	coordinator *Coordinator
	router      route.Router
	caller      *upstream.Caller
	limits      Limits
}

// NewTopics makes one. caller is used for all calls to brokers and stays the caller's to close.
func NewTopics(coordinator *Coordinator, router route.Router, caller *upstream.Caller, limits Limits) *Topics {
	return &Topics{coordinator: coordinator, router: router, caller: caller, limits: limits}
}

// nameOf is a topic's name in the API.
func nameOf(namespace, topic string) topology.Name {
	if namespace == "" {
		namespace = topology.DefaultNamespace
	}
	return topology.Name{Namespace: namespace, Topic: topic}
}

// CreateTopic implements controlv1.TopicServiceServer.
func (t *Topics) CreateTopic(ctx context.Context, req *controlv1.CreateTopicRequest) (*controlv1.Topic, error) {
	if req.GetTopic() == nil {
		return nil, fault.Errorf(fault.Invalid, "topic: it is missing")
	}
	req = proto.CloneOf(req)
	if req.GetNamespace() != "" && req.GetTopic().GetNamespace() != "" && req.GetNamespace() != req.GetTopic().GetNamespace() {
		return nil, fault.Errorf(fault.Invalid, "namespace: the path says %q, the topic %q", req.GetNamespace(), req.GetTopic().GetNamespace())
	}
	if req.GetNamespace() == "" {
		req.Namespace = req.GetTopic().GetNamespace()
	}
	if req.GetRequestId() == "" {
		req.RequestId = t.coordinator.newID()
	}
	created, _, err := ask(ctx, t.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Topic, error) {
		return c.CreateTopic(ctx, req)
	})
	if err != nil || req.GetValidateOnly() {
		return created, err
	}
	// The topic exists: that its leaders are late is told by their states, not by an error.
	table, topic, err := t.router.AwaitActive(ctx, nameOf(created.GetNamespace(), created.GetTopic()))
	if err == nil && topic.ID.String() == created.GetId() {
		created.PartitionStates = leaders(table, topic)
	}
	return created, nil
}

// GetTopic implements controlv1.TopicServiceServer.
func (t *Topics) GetTopic(ctx context.Context, req *controlv1.GetTopicRequest) (*controlv1.Topic, error) {
	topic, _, err := ask(ctx, t.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Topic, error) {
		return c.GetTopic(ctx, req)
	})
	if err != nil {
		return nil, err
	}
	name := nameOf(topic.GetNamespace(), topic.GetTopic())
	table := t.router.Await(ctx, name)
	known, err := table.Topic(name)
	if err != nil || known.ID.String() != topic.GetId() {
		return topic, nil //nolint:nilerr // this gateway's View is behind: it has nothing to add to what the coordinator said.
	}
	planned := topic.GetPartitionStates()
	topic.PartitionStates = leaders(table, known)
	for i, state := range topic.GetPartitionStates() {
		if i < len(planned) { // what only the coordinator tells
			state.Learners, state.Move, state.Lineage = planned[i].GetLearners(), planned[i].GetMove(), planned[i].GetLineage()
		}
	}
	t.askLeaders(ctx, table, known, topic.GetPartitionStates())
	return topic, nil
}

// ListTopics implements controlv1.TopicServiceServer.
func (t *Topics) ListTopics(ctx context.Context, req *controlv1.ListTopicsRequest) (*controlv1.ListTopicsResponse, error) {
	list, _, err := ask(ctx, t.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.ListTopicsResponse, error) {
		return c.ListTopics(ctx, req)
	})
	return list, err
}

// UpdateTopic implements controlv1.TopicServiceServer.
func (t *Topics) UpdateTopic(ctx context.Context, req *controlv1.UpdateTopicRequest) (*controlv1.Topic, error) {
	// With an etag a repetition could be refused for what the first attempt did.
	repeat := again(req.GetTopic().GetEtag() == "")
	topic, _, err := ask(ctx, t.coordinator, repeat, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Topic, error) {
		return c.UpdateTopic(ctx, req)
	})
	return topic, err
}

// DeleteTopic implements controlv1.TopicServiceServer.
func (t *Topics) DeleteTopic(ctx context.Context, req *controlv1.DeleteTopicRequest) (*emptypb.Empty, error) {
	name := nameOf(req.GetNamespace(), req.GetTopic())
	before, beforeErr := t.router.Table().Topic(name)
	empty, unsure, err := ask(ctx, t.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*emptypb.Empty, error) {
		return c.DeleteTopic(ctx, req)
	})
	if unsure && fault.Is(err, fault.NotFound) {
		empty, err = &emptypb.Empty{}, nil // an attempt without an answer has deleted it
	}
	if err == nil && beforeErr == nil {
		t.forget(ctx, name, before)
	}
	return empty, err
}

// forget waits a moment until this gateway does not know the topic any more, so that its next answers agree with this one.
func (t *Topics) forget(ctx context.Context, name topology.Name, before topology.Topic) {
	wait, cancel := context.WithTimeout(ctx, route.UnknownGrace)
	defer cancel()
	_, _ = t.router.WaitFor(wait, func(table route.Table) bool { // it is deleted, whether this gateway has seen it or not
		now, err := table.Topic(name)
		return err != nil || now.ID != before.ID
	})
}
