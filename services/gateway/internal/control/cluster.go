package control

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/seedqueue/sq/libs/fault"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
)

// Namespaces implements controlv1.NamespaceServiceServer.
type Namespaces struct {
	controlv1.UnimplementedNamespaceServiceServer

	coordinator *Coordinator
}

// NewNamespaces makes one.
func NewNamespaces(coordinator *Coordinator) *Namespaces {
	return &Namespaces{coordinator: coordinator}
}

// CreateNamespace implements controlv1.NamespaceServiceServer.
func (n *Namespaces) CreateNamespace(ctx context.Context, req *controlv1.CreateNamespaceRequest) (*controlv1.Namespace, error) {
	if req.GetNamespace() == nil {
		return nil, fault.Errorf(fault.Invalid, "namespace: it is missing")
	}
	req = proto.CloneOf(req)
	if req.GetRequestId() == "" {
		req.RequestId = n.coordinator.newID()
	}
	created, _, err := ask(ctx, n.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Namespace, error) {
		return c.CreateNamespace(ctx, req)
	})
	return created, err
}

// ListNamespaces implements controlv1.NamespaceServiceServer.
func (n *Namespaces) ListNamespaces(ctx context.Context, req *controlv1.ListNamespacesRequest) (*controlv1.ListNamespacesResponse, error) {
	list, _, err := ask(ctx, n.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.ListNamespacesResponse, error) {
		return c.ListNamespaces(ctx, req)
	})
	return list, err
}

// DeleteNamespace implements controlv1.NamespaceServiceServer.
func (n *Namespaces) DeleteNamespace(ctx context.Context, req *controlv1.DeleteNamespaceRequest) (*emptypb.Empty, error) {
	empty, unsure, err := ask(ctx, n.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*emptypb.Empty, error) {
		return c.DeleteNamespace(ctx, req)
	})
	if unsure && fault.Is(err, fault.NotFound) {
		return &emptypb.Empty{}, nil // an attempt without an answer has deleted it
	}
	return empty, err
}

// Cluster implements controlv1.ClusterServiceServer.
type Cluster struct {
	controlv1.UnimplementedClusterServiceServer

	coordinator *Coordinator
}

// NewCluster makes one.
func NewCluster(coordinator *Coordinator) *Cluster { return &Cluster{coordinator: coordinator} }

// GetCluster implements controlv1.ClusterServiceServer.
func (c *Cluster) GetCluster(ctx context.Context, req *controlv1.GetClusterRequest) (*controlv1.Cluster, error) {
	cluster, _, err := ask(ctx, c.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.Cluster, error) {
		return c.GetCluster(ctx, req)
	})
	return cluster, err
}

// ListBrokers implements controlv1.ClusterServiceServer.
func (c *Cluster) ListBrokers(ctx context.Context, req *controlv1.ListBrokersRequest) (*controlv1.ListBrokersResponse, error) {
	list, _, err := ask(ctx, c.coordinator, repeatable, func(ctx context.Context, c coordinatorv1.CoordinatorServiceClient) (*controlv1.ListBrokersResponse, error) {
		return c.ListBrokers(ctx, req)
	})
	return list, err
}
