package command_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

// fakeCluster keeps the last request with those of topics. Its broker 3 holds less at each look.
type fakeCluster struct {
	controlv1.UnimplementedClusterServiceServer

	topics *fakeTopics
	left   int32
}

func (f *fakeTopics) ReassignTopic(_ context.Context, in *controlv1.ReassignTopicRequest) (*controlv1.ReassignTopicResponse, error) {
	return &controlv1.ReassignTopicResponse{Moves: []*controlv1.Move{{Topic: in.GetTopic(), From: []int64{1}, To: in.GetBrokers()}}}, f.note(in)
}

func (f *fakeTopics) TransferLeader(_ context.Context, in *controlv1.TransferLeaderRequest) (*controlv1.Partition, error) {
	return &controlv1.Partition{Leader: 2, Epoch: 5}, f.note(in)
}

func (f *fakeTopics) ForceRecover(_ context.Context, in *controlv1.ForceRecoverRequest) (*controlv1.Recovery, error) {
	r := &controlv1.Recovery{
		Topic: in.GetTopic(), Partition: in.GetPartition(), Survivor: 2, SurvivorEnd: 90, Done: in.GetAcceptLoss(), Loss: "everything behind 90 is lost",
		Members: []*controlv1.RecoveryMember{{Broker: 1, Error: "its broker is down"}, {Broker: 2, Found: true, End: 90}, {Broker: 3, Found: true, Faulty: true}},
	}
	if r.GetDone() {
		r.Lineage, r.Epoch = "of-now", 7
	}
	return r, f.note(in)
}

func (f *fakeCluster) GetCluster(_ context.Context, in *controlv1.GetClusterRequest) (*controlv1.Cluster, error) {
	return &controlv1.Cluster{ClusterId: "c", Brokers: 3, UnderReplicatedPartitions: 4, MovesWaiting: 5, Recoveries: 1}, f.topics.note(in)
}

func (f *fakeCluster) broker(state controlv1.BrokerState) *controlv1.Broker {
	return &controlv1.Broker{Id: 3, State: state, Replicas: f.left, DecommissionTotal: 3, Disks: []*controlv1.Disk{{State: "ok", FreeBytes: 1 << 30, TotalBytes: 2 << 30}}}
}

func (f *fakeCluster) ListBrokers(_ context.Context, in *controlv1.ListBrokersRequest) (*controlv1.ListBrokersResponse, error) {
	state := controlv1.BrokerState_BROKER_STATE_DECOMMISSIONING
	if f.left = max(f.left-1, 0); f.left == 0 {
		state = controlv1.BrokerState_BROKER_STATE_DECOMMISSIONED
	}
	return &controlv1.ListBrokersResponse{Brokers: []*controlv1.Broker{
		{Id: 1, State: controlv1.BrokerState_BROKER_STATE_SUSPECTED, SuspectedBy: []int64{2, 3}, Zone: "z"}, f.broker(state),
	}}, f.topics.note(in)
}

func (f *fakeCluster) CanStop(_ context.Context, in *controlv1.CanStopRequest) (*controlv1.CanStopResponse, error) {
	return &controlv1.CanStopResponse{Safe: in.GetBroker() == 1, Reason: "because"}, f.topics.note(in)
}

func (f *fakeCluster) DrainBroker(_ context.Context, in *controlv1.DrainBrokerRequest) (*controlv1.Broker, error) {
	return f.broker(controlv1.BrokerState_BROKER_STATE_DRAINING), f.topics.note(in)
}

func (f *fakeCluster) UndrainBroker(_ context.Context, in *controlv1.UndrainBrokerRequest) (*controlv1.Broker, error) {
	return f.broker(controlv1.BrokerState_BROKER_STATE_LIVE), f.topics.note(in)
}

func (f *fakeCluster) DecommissionBroker(_ context.Context, in *controlv1.DecommissionBrokerRequest) (*controlv1.Broker, error) {
	f.left = 2
	return f.broker(controlv1.BrokerState_BROKER_STATE_DECOMMISSIONING), f.topics.note(in)
}

func (f *fakeCluster) RecommissionBroker(_ context.Context, in *controlv1.RecommissionBrokerRequest) (*controlv1.Broker, error) {
	return f.broker(controlv1.BrokerState_BROKER_STATE_LIVE), f.topics.note(in)
}

func (f *fakeCluster) ListMoves(_ context.Context, in *controlv1.ListMovesRequest) (*controlv1.ListMovesResponse, error) {
	return &controlv1.ListMovesResponse{Total: 3, Moves: []*controlv1.Move{{Topic: "t", Namespace: "n", Partition: 2, From: []int64{1}, To: []int64{3}}}}, f.topics.note(in)
}

func (f *fakeCluster) ListRecoveries(_ context.Context, in *controlv1.ListRecoveriesRequest) (*controlv1.ListRecoveriesResponse, error) {
	return &controlv1.ListRecoveriesResponse{Recoveries: []*controlv1.Recovery{{Topic: "t", Done: true, Lineage: "of-then"}}}, f.topics.note(in)
}

func TestOperatorsRequests(t *testing.T) {
	f, env := startFake(t)
	env.Environ = append(env.Environ, "SQ_NAMESPACE=n")
	three := int32(3)
	for args, c := range map[string]struct {
		want proto.Message
		out  string
	}{
		"cluster status":                              {&controlv1.GetClusterRequest{}, "under-replicated   4"},
		"cluster brokers":                             {&controlv1.ListBrokersRequest{}, "suspected by 2,3"},
		"cluster brokers -o json":                     {&controlv1.ListBrokersRequest{}, `"suspectedBy"`},
		"cluster moves":                               {&controlv1.ListMovesRequest{PageSize: 1000}, "n/t/2      1     3   waits to move"},
		"cluster recoveries":                          {&controlv1.ListRecoveriesRequest{}, "of-then"},
		"cluster reassign t/3 --brokers 1,2,4":        {&controlv1.ReassignTopicRequest{Namespace: "n", Topic: "t", Partition: &three, Brokers: []int64{1, 2, 4}}, "1,2,4"},
		"cluster reassign t --replication-factor 5":   {&controlv1.ReassignTopicRequest{Namespace: "n", Topic: "t", ReplicationFactor: 5}, "5 replicas"},
		"cluster reassign t --cancel --validate-only": {&controlv1.ReassignTopicRequest{Namespace: "n", Topic: "t", Cancel: true, ValidateOnly: true}, ""},
		"cluster transfer-leader t/3 --to 2":          {&controlv1.TransferLeaderRequest{Namespace: "n", Topic: "t", Partition: 3, Broker: 2}, "leader 2  epoch 5"},
		"cluster drain 3":                             {&controlv1.DrainBrokerRequest{Broker: 3}, "draining"},
		"cluster drain 3 --cancel":                    {&controlv1.UndrainBrokerRequest{Broker: 3}, "live"},
		"cluster decommission 3":                      {&controlv1.DecommissionBrokerRequest{Broker: 3}, "decommissioning, 2 of 3 replicas left"},
		"cluster decommission 3 --validate-only":      {&controlv1.DecommissionBrokerRequest{Broker: 3, ValidateOnly: true}, ""},
		"cluster decommission 3 --cancel":             {&controlv1.RecommissionBrokerRequest{Broker: 3}, "live"},
		"cluster can-stop 1":                          {&controlv1.CanStopRequest{Broker: 1}, "yes: because"},
		"topic alter t --replication-factor 3":        {&controlv1.UpdateTopicRequest{}, "replication_factor"},
		"admin force-recover t/3 --accept-loss":       {&controlv1.ForceRecoverRequest{Namespace: "n", Topic: "t", Partition: 3, AcceptLoss: true}, "everything behind 90 is lost"},
	} {
		code, out, errs := run(t, env, strings.Fields(args)...)
		if code != 0 || errs != "" || !strings.Contains(out, c.out) {
			t.Errorf("sq %s: code %d, %q, %q", args, code, out, errs)
		}
		if alter, ok := f.last.(*controlv1.UpdateTopicRequest); ok {
			if alter.GetTopic().GetReplicationFactor() != 3 || strings.Join(alter.GetUpdateMask().GetPaths(), " ") != "replication_factor" {
				t.Errorf("sq %s asks %v", args, alter)
			}
			continue
		}
		if diff := cmp.Diff(c.want, f.last, protocmp.Transform()); diff != "" {
			t.Errorf("sq %s asks (-want +got):\n%s", args, diff)
		}
	}
}

func TestCanStopSaysNoByItsCode(t *testing.T) {
	_, env := startFake(t)
	if code, out, errs := run(t, env, "cluster", "can-stop", "2"); code != 1 || out != "no: because\n" || errs != "" {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
}

// Without --accept-loss nothing is done, and that is said.
func TestForceRecoverTellsFirst(t *testing.T) {
	f, env := startFake(t)
	code, out, errs := run(t, env, "admin", "force-recover", "t/0")
	if code != 0 || f.last.(*controlv1.ForceRecoverRequest).GetAcceptLoss() || !strings.Contains(errs, "Nothing was changed") {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
	for _, want := range []string{"would recover", "gone: its broker is down", "damaged", "everything behind 90 is lost"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}

func TestDecommissionWaits(t *testing.T) {
	_, env := startFake(t)
	code, _, errs := run(t, env, "cluster", "decommission", "3", "--wait")
	if code != 0 || !strings.Contains(errs, "1 of 3 replicas left\n") || !strings.HasSuffix(errs, "decommissioned\n") {
		t.Errorf("code %d, %q", code, errs)
	}
}

func TestCompletesBrokers(t *testing.T) {
	_, env := startFake(t)
	if code, out, _ := run(t, env, "__complete", "cluster", "drain", ""); code != 0 || !strings.HasPrefix(out, "1\tsuspected by 2,3\n3\t") {
		t.Errorf("code %d, %q", code, out)
	}
}
