package api

import (
	"context"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/reconcile"
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
func (s *Server) ListNamespaces(ctx context.Context, in *controlv1.ListNamespacesRequest) (*controlv1.ListNamespacesResponse, error) {
	limit, after, err := page(in.GetPageSize(), in.GetPageToken())
	if err != nil {
		return nil, err
	}
	found, more, err := s.catalog.Namespaces(ctx, after, limit)
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
	brokers := s.brokers(v)
	totals := reconcile.Count(v, members.ByID(brokers))
	out := &controlv1.Cluster{
		ClusterId: v.Cluster.Value.ID.String(), Topics: int32(len(v.Names)), //nolint:gosec // counts.
		Brokers:  int32(len(members.Live(brokers))),                      //nolint:gosec // a count.
		Gateways: int32(len(v.Gateways)), Tierers: int32(len(v.Tierers)), //nolint:gosec // counts.
		Partitions: int32(totals.Partitions), PartitionsWithoutLeader: int32(totals.WithoutLeader), //nolint:gosec // counts.
		UnderReplicatedPartitions: int32(totals.UnderReplicated), MovesStarted: int32(totals.MovesStarted), //nolint:gosec // counts.
		MovesWaiting: int32(totals.MovesWaiting), Recoveries: int32(len(v.Recoveries)), //nolint:gosec // counts.
		Software: software(v, brokers),
	}
	if v.Coordinator != nil {
		out.Coordinator = v.Coordinator.Value.ID
	}
	return out, nil
}

// software lists the versions that run, each once.
func software(v *topology.View, brokers []members.Broker) []string {
	versions := map[string]struct{}{}
	for _, b := range members.Live(brokers) {
		versions[b.Software] = struct{}{}
	}
	for _, live := range []map[string]topology.Live{v.Gateways, v.Tierers} {
		for _, l := range live {
			versions[l.Software] = struct{}{}
		}
	}
	if v.Coordinator != nil {
		versions[v.Coordinator.Value.Software] = struct{}{}
	}
	return slices.Sorted(maps.Keys(versions))
}

// brokers are those of a view, with what they report.
func (s *Server) brokers(v *topology.View) []members.Broker {
	return members.Of(v, s.reports.Now(s.clock.Now()))
}

// ListBrokers lists brokers by id.
func (s *Server) ListBrokers(context.Context, *controlv1.ListBrokersRequest) (*controlv1.ListBrokersResponse, error) {
	v, err := s.catalog.View()
	if err != nil {
		return nil, err //nolint:wrapcheck // catalog says it all.
	}
	out := &controlv1.ListBrokersResponse{}
	for _, b := range s.brokers(v) {
		out.Brokers = append(out.Brokers, writeBroker(b, v.Brokers[b.ID].Orders.Value))
	}
	return out, nil
}

func writeBroker(b members.Broker, orders topology.BrokerOrders) *controlv1.Broker {
	out := &controlv1.Broker{
		Id: signed(uint64(b.ID)), Live: b.Live, Incarnation: signed(uint64(b.Incarnation)), Zone: b.Zone,
		Address: b.Address, Software: b.Software, Leads: int32(b.Leads), Replicas: int32(b.Replicas), //nolint:gosec // counts.
		State: stateOf(b),
	}
	for _, d := range b.Disks {
		out.Disks = append(out.Disks, &controlv1.Disk{Id: d.ID.String(), State: d.State, FreeBytes: signed(d.Free), TotalBytes: signed(d.Total)})
	}
	for _, id := range b.SuspectedBy {
		out.SuspectedBy = append(out.SuspectedBy, signed(uint64(id)))
	}
	if orders.Decommission != nil {
		out.DecommissionTotal = int32(min(orders.Decommission.Replicas, math.MaxInt32)) //nolint:gosec // bounded in place.
	}
	return out
}

func stateOf(b members.Broker) controlv1.BrokerState {
	switch {
	case b.Leaving && b.Replicas == 0:
		return controlv1.BrokerState_BROKER_STATE_DECOMMISSIONED
	case !b.Live:
		return controlv1.BrokerState_BROKER_STATE_DOWN
	case b.Leaving:
		return controlv1.BrokerState_BROKER_STATE_DECOMMISSIONING
	case len(b.SuspectedBy) > 0:
		return controlv1.BrokerState_BROKER_STATE_SUSPECTED
	case b.Draining:
		return controlv1.BrokerState_BROKER_STATE_DRAINING
	default:
		return controlv1.BrokerState_BROKER_STATE_LIVE
	}
}
