package standin

import (
	"context"
	"regexp"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/topology"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
)

// Coordinator keeps the topics of a World.
type Coordinator struct {
	coordinatorv1.UnimplementedCoordinatorServiceServer

	Addr  string
	world *World
	mu    struct {
		sync.Mutex
		script   func(method string, done func() (any, error)) (any, error)
		requests map[string]string // id → topic
		calls    []string
	}
}

// NewCoordinator starts a coordinator on a host and port and makes it the active one; it ends with the test.
func NewCoordinator(t testing.TB, w *World, host, addr string) *Coordinator {
	t.Helper()
	listener, err := w.Net.At(host).Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	c := &Coordinator{Addr: listener.Addr().String(), world: w}
	c.mu.requests = map[string]string{}
	server := grpc.NewServer(grpc.UnaryInterceptor(c.serve))
	coordinatorv1.RegisterCoordinatorServiceServer(server, c)
	var served sync.WaitGroup
	served.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		served.Wait()
	})
	w.Activate(c.Addr)
	return c
}

// Activate makes the coordinator at an address the active one.
func (w *World) Activate(addr string) {
	w.Views.Change(func(v *topology.View) {
		v.Coordinator = &topology.Versioned[topology.Live]{Value: topology.Live{V: 1, ID: addr, GRPC: addr}, ModRevision: v.Revision}
	})
}

// Script decides what a call does: done carries it out.
func (c *Coordinator) Script(script func(method string, done func() (any, error)) (any, error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.script = script
}

// Standby is the answer of a coordinator that is not the active one.
func Standby() error {
	return faultwire.ToStatusReason(fault.Errorf(fault.Unavailable, "standing by"), "NOT_COORDINATOR").Err()
}

// Calls are the methods that were called.
func (c *Coordinator) Calls() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.mu.calls)
}

func (c *Coordinator) serve(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[len("/sq.coordinator.v1.CoordinatorService/"):]
	c.mu.Lock()
	c.mu.calls = append(c.mu.calls, method)
	script := c.mu.script
	c.mu.Unlock()
	done := func() (any, error) { return faultwire.UnaryServer(ctx, req, info, next) }
	if script == nil {
		return done()
	}
	return script(method, done)
}

func legal(name string) bool {
	return regexp.MustCompile(`^[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,199}$`).MatchString(name)
}

func nameOf(namespace, topic string) topology.Name {
	if namespace == "" {
		namespace = topology.DefaultNamespace
	}
	return topology.Name{Namespace: namespace, Topic: topic}
}

func (c *Coordinator) find(name topology.Name) (topology.Topic, error) {
	topic, ok := c.world.Views.View().Topic(name)
	if !ok {
		return topology.Topic{}, fault.Errorf(fault.NotFound, "topic %s does not exist", name)
	}
	return topic.Value, nil
}

func shown(t topology.Topic) *controlv1.Topic {
	return &controlv1.Topic{
		Namespace: t.Namespace, Topic: t.Name, Id: t.ID.String(), Partitions: int32(t.Partitions), ReplicationFactor: int32(t.ReplicationFactor),
		Durability: controlv1.Durability_DURABILITY_QUORUM, BatchBytesMax: int32(t.BatchBytesMax), CreateTime: timestamppb.New(t.Created), Etag: "1",
	}
}

// CreateTopic implements the service.
func (c *Coordinator) CreateTopic(_ context.Context, req *controlv1.CreateTopicRequest) (*controlv1.Topic, error) {
	name := nameOf(req.GetNamespace(), req.GetTopic().GetTopic())
	if !legal(name.Topic) {
		return nil, fault.Errorf(fault.Invalid, "topic: %.64q is not a legal name", name.Topic)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if topic, err := c.find(name); err == nil {
		if c.mu.requests[req.GetRequestId()] == name.String() {
			return shown(topic), nil
		}
		return nil, fault.Errorf(fault.Exists, "topic %s exists", name)
	}
	if req.GetValidateOnly() {
		return req.GetTopic(), nil
	}
	c.mu.requests[req.GetRequestId()] = name.String()
	topic, _ := c.world.AddTopic(name.Topic, max(int(req.GetTopic().GetPartitions()), 1))
	return shown(topic), nil
}

// GetTopic implements the service.
func (c *Coordinator) GetTopic(_ context.Context, req *controlv1.GetTopicRequest) (*controlv1.Topic, error) {
	topic, err := c.find(nameOf(req.GetNamespace(), req.GetTopic()))
	if err != nil {
		return nil, err
	}
	return shown(topic), nil
}

// ListTopics implements the service.
func (c *Coordinator) ListTopics(context.Context, *controlv1.ListTopicsRequest) (*controlv1.ListTopicsResponse, error) {
	out := &controlv1.ListTopicsResponse{}
	for _, topic := range c.world.Views.View().Topics {
		out.Topics = append(out.Topics, shown(topic.Value))
	}
	return out, nil
}

// UpdateTopic implements the service.
func (c *Coordinator) UpdateTopic(_ context.Context, req *controlv1.UpdateTopicRequest) (*controlv1.Topic, error) {
	topic, err := c.find(nameOf(req.GetTopic().GetNamespace(), req.GetTopic().GetTopic()))
	if err != nil {
		return nil, err
	}
	if etag := req.GetTopic().GetEtag(); etag != "" && etag != "1" {
		return nil, fault.Errorf(fault.Conflict, "topic %s has changed", topic.FullName())
	}
	return shown(topic), nil
}

// DeleteTopic implements the service.
func (c *Coordinator) DeleteTopic(_ context.Context, req *controlv1.DeleteTopicRequest) (*emptypb.Empty, error) {
	name := nameOf(req.GetNamespace(), req.GetTopic())
	topic, err := c.find(name)
	if err != nil {
		return nil, err
	}
	c.world.Views.Change(func(v *topology.View) {
		delete(v.Names, name)
		delete(v.Topics, topic.ID)
		delete(v.Partitions, topic.ID)
	})
	return &emptypb.Empty{}, nil
}

// ListNamespaces implements the service.
func (c *Coordinator) ListNamespaces(context.Context, *controlv1.ListNamespacesRequest) (*controlv1.ListNamespacesResponse, error) {
	return &controlv1.ListNamespacesResponse{Namespaces: []*controlv1.Namespace{{Namespace: topology.DefaultNamespace}}}, nil
}

// CreateNamespace implements the service.
func (c *Coordinator) CreateNamespace(_ context.Context, req *controlv1.CreateNamespaceRequest) (*controlv1.Namespace, error) {
	return req.GetNamespace(), nil
}

// DeleteNamespace implements the service.
func (c *Coordinator) DeleteNamespace(context.Context, *controlv1.DeleteNamespaceRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, nil
}

// GetCluster implements the service.
func (c *Coordinator) GetCluster(context.Context, *controlv1.GetClusterRequest) (*controlv1.Cluster, error) {
	view := c.world.Views.View()
	return &controlv1.Cluster{ClusterId: view.Cluster.Value.ID.String(), Coordinator: c.Addr, Brokers: int32(len(view.Brokers)), Topics: int32(len(view.Topics))}, nil
}

// ListBrokers implements the service.
func (c *Coordinator) ListBrokers(context.Context, *controlv1.ListBrokersRequest) (*controlv1.ListBrokersResponse, error) {
	out := &controlv1.ListBrokersResponse{}
	for id, broker := range c.world.Views.View().Brokers {
		out.Brokers = append(out.Brokers, &controlv1.Broker{Id: int64(id), Live: broker.Live != nil})
	}
	return out, nil
}
