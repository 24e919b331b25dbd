package api

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

// CreateNamespace makes a namespace.
func (s *Server) CreateNamespace(ctx context.Context, in *controlv1.CreateNamespaceRequest) (*controlv1.Namespace, error) {
	name := in.GetNamespace().GetNamespace()
	made, err := s.catalog.CreateNamespace(ctx, name, in.GetRequestId())
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	return &controlv1.Namespace{Namespace: name, CreateTime: timestamppb.New(made.Created)}, nil
}

// ListNamespaces lists namespaces by name.
func (s *Server) ListNamespaces(_ context.Context, in *controlv1.ListNamespacesRequest) (*controlv1.ListNamespacesResponse, error) {
	limit, after, err := page(in.GetPageSize(), in.GetPageToken())
	if err != nil {
		return nil, err
	}
	found, more, err := s.catalog.Namespaces(after, limit)
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	out := &controlv1.ListNamespacesResponse{}
	for _, ns := range found {
		out.Namespaces = append(out.Namespaces, &controlv1.Namespace{Namespace: ns.Name, CreateTime: timestamppb.New(ns.Created)})
	}
	if more {
		out.NextPageToken = pageToken(found[len(found)-1].Name)
	}
	return out, nil
}

// DeleteNamespace removes a namespace that has no topic.
func (s *Server) DeleteNamespace(ctx context.Context, in *controlv1.DeleteNamespaceRequest) (*emptypb.Empty, error) {
	if err := s.catalog.DeleteNamespace(ctx, in.GetNamespace()); err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	return &emptypb.Empty{}, nil
}

// GetCluster counts.
func (s *Server) GetCluster(context.Context, *controlv1.GetClusterRequest) (*controlv1.Cluster, error) {
	v, err := s.catalog.View()
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	if v.Cluster.ModRevision == 0 {
		return nil, fault.Errorf(fault.Unavailable, "the cluster's identity was not read yet: try again")
	}
	out := &controlv1.Cluster{
		ClusterId: v.Cluster.Value.ID.String(), Topics: int32(len(v.Names)), //nolint:gosec // counts.
		Brokers:  int32(len(members.Live(members.Of(v)))),                //nolint:gosec // a count.
		Gateways: int32(len(v.Gateways)), Tierers: int32(len(v.Tierers)), //nolint:gosec // counts.
	}
	if v.Coordinator != nil {
		out.Coordinator = v.Coordinator.Value.ID
	}
	for id, assignments := range v.Partitions {
		if topic, ok := v.Topics[id]; !ok || topic.Value.Deleted != nil {
			continue
		}
		for _, a := range assignments {
			out.Partitions++
			if !led(v, a.Value) {
				out.PartitionsWithoutLeader++
			}
		}
	}
	return out, nil
}

func led(v *topology.View, a topology.Assignment) bool {
	incarnation, live := members.Incarnation(v.Brokers[a.Leader.Broker])
	return live && incarnation == a.Leader.Incarnation && a.Status == topology.Active
}

// ListBrokers lists brokers by id.
func (s *Server) ListBrokers(context.Context, *controlv1.ListBrokersRequest) (*controlv1.ListBrokersResponse, error) {
	v, err := s.catalog.View()
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	out := &controlv1.ListBrokersResponse{}
	for _, b := range members.Of(v) {
		out.Brokers = append(out.Brokers, &controlv1.Broker{
			Id: signed(uint64(b.ID)), Live: b.Live, Incarnation: signed(uint64(b.Incarnation)), Zone: b.Zone,
			Address: b.Address, Software: b.Software, Leads: int32(b.Leads), Replicas: int32(b.Replicas), //nolint:gosec // counts.
		})
	}
	return out, nil
}
