package control

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/frame"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/admission"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster with a coordinator and a gateway's gRPC server.
type world struct {
	*standin.World
	coordinator *standin.Coordinator
	gate        *admission.Gate
	conn        *grpc.ClientConn
	topics      controlv1.TopicServiceClient
}

type panicking struct {
	datav1.UnimplementedDataServiceServer
}

func (panicking) GetRecord(context.Context, *datav1.GetRecordRequest) (*datav1.Record, error) {
	panic("a bug")
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: standin.NewWorld(t, 3)}
	w.coordinator = standin.NewCoordinator(t, w.World, "c1", "c1:6260")
	router := route.NewRouter(w.Views, clock.Real())
	limits := DefaultLimits()
	limits.RetryFor = 3 * time.Second
	registry := prometheus.NewRegistry()
	cluster := upstream.New(upstream.Config{
		Router: router, Network: w.Net.At("gateway"), Clock: clock.Real(), Metrics: registry, Pool: frame.NewPool(), Limits: upstream.DefaultLimits(),
	})
	caller := cluster.Caller(upstream.Client{ID: "control"})
	t.Cleanup(caller.Close)
	ids := 0
	coordinator := NewCoordinator(router, w.Net.At("gateway"), clock.Real(), noop.NewTracerProvider(), func() string { ids++; return fmt.Sprint("id-", ids) }, limits)
	t.Cleanup(func() { _ = coordinator.Close() })
	w.gate = admission.New(1<<20, 1<<20, 2, registry)
	network, memory := NewServers(ServerConfig{
		Services: Services{
			Topics: NewTopics(coordinator, router, caller, limits), Namespaces: NewNamespaces(coordinator), Cluster: NewCluster(coordinator), Data: panicking{},
		},
		Gate: w.gate, Clock: clock.Real(), Log: slog.New(slog.DiscardHandler), Metrics: registry, Tracers: noop.NewTracerProvider(), Limits: limits,
	})
	t.Cleanup(memory.Stop)
	listener, err := w.Net.At("gateway").Listen(t.Context(), "gateway:6060")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() { _ = network.Serve(admission.Limit(listener, 10)) })
	t.Cleanup(func() { network.Stop(); served.Wait() })
	w.conn, err = grpc.NewClient("passthrough:///gateway:6060", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return w.Net.At("client").Dial(ctx, addr) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.conn.Close() })
	w.topics = controlv1.NewTopicServiceClient(w.conn)
	return w
}

func kindOf(err error) fault.Kind { return fault.KindOf(faultwire.FromGRPC(err)) }

// Invariants 1 and 2.
func TestTopicsComeAndGo(t *testing.T) {
	w := newWorld(t)
	created, err := w.topics.CreateTopic(t.Context(), &controlv1.CreateTopicRequest{Topic: &controlv1.Topic{Topic: "fresh", Partitions: 2}})
	if err != nil || len(created.GetPartitionStates()) != 2 || !created.GetPartitionStates()[1].GetActive() {
		t.Fatalf("create: %v, %v", created, err)
	}
	if _, err := w.topics.CreateTopic(t.Context(), &controlv1.CreateTopicRequest{Topic: &controlv1.Topic{Topic: "fresh"}}); kindOf(err) != fault.Exists {
		t.Errorf("create again: %v", err)
	}
	if _, err := w.topics.CreateTopic(t.Context(), &controlv1.CreateTopicRequest{}); kindOf(err) != fault.Invalid {
		t.Errorf("create nothing: %v", err)
	}
	if _, err := w.topics.CreateTopic(t.Context(), &controlv1.CreateTopicRequest{Namespace: "a", Topic: &controlv1.Topic{Namespace: "b", Topic: "x"}}); kindOf(err) != fault.Invalid {
		t.Errorf("create in two namespaces: %v", err)
	}
	dry, err := w.topics.CreateTopic(t.Context(), &controlv1.CreateTopicRequest{Topic: &controlv1.Topic{Topic: "dry"}, ValidateOnly: true})
	if err != nil || dry.GetTopic() != "dry" {
		t.Errorf("validate only: %v, %v", dry, err)
	}
	list, err := w.topics.ListTopics(t.Context(), &controlv1.ListTopicsRequest{})
	if err != nil || len(list.GetTopics()) != 2 {
		t.Errorf("list: %v, %v", list, err)
	}
	if _, err := w.topics.DeleteTopic(t.Context(), &controlv1.DeleteTopicRequest{Topic: "fresh"}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := w.topics.GetTopic(t.Context(), &controlv1.GetTopicRequest{Topic: "fresh"}); kindOf(err) != fault.NotFound {
		t.Errorf("get what was deleted: %v", err)
	}
}

// Invariant 3.
func TestGetTopicAsksTheLeaders(t *testing.T) {
	w := newWorld(t)
	w.Append(t, 0, "a", "b")
	w.Views.Lead(w.ID(1), 9) // nobody there
	w.Views.Lead(w.ID(2), 2) // there, but it does not lead
	topic, err := w.topics.GetTopic(t.Context(), &controlv1.GetTopicRequest{Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	states := topic.GetPartitionStates()
	if len(states) != 3 || !states[0].GetActive() || states[0].GetHighWatermark() != 2 || states[0].GetDurability() != "fsync-quorum" ||
		states[0].GetLeader() != 1 || states[0].GetError() != "" {
		t.Errorf("served: %v", states)
	}
	replicas := states[0].GetReplicas()
	if len(replicas) != 3 || !replicas[0].GetLeader() || replicas[0].GetLastHeard() != nil || replicas[1].GetLag() != 0 ||
		replicas[1].GetLastHeard().AsDuration() != 20*time.Millisecond || !replicas[2].GetLearner() || replicas[2].GetLag() != 2 || replicas[2].GetLive() || !replicas[1].GetLive() {
		t.Errorf("replicas: %v", replicas)
	}
	if states[1].GetActive() || states[1].GetLeader() != 0 || states[1].GetError() == "" || states[1].GetEpoch() != 2 {
		t.Errorf("without a leader: %v", states[1])
	}
	if states[2].GetActive() || states[2].GetLeader() != 2 || !strings.Contains(states[2].GetError(), "not the leader") {
		t.Errorf("with a leader that does not know: %v", states[2])
	}
}

func TestSealAndTrim(t *testing.T) {
	w := newWorld(t)
	w.Append(t, 0, "a", "b", "c")
	sealed, err := w.topics.SealTopic(t.Context(), &controlv1.SealTopicRequest{Topic: "orders"})
	if err != nil || len(sealed.GetPartitions()) != 3 || sealed.GetPartitions()[0].GetSealedEnd() != 3 || !sealed.GetPartitions()[0].GetSealed() ||
		sealed.GetPartitions()[1].GetSealed() {
		t.Errorf("seal all: %v, %v", sealed, err)
	}
	zero, one := proto.Int32(0), proto.Int64(1)
	trimmed, err := w.topics.TrimTopic(t.Context(), &controlv1.TrimTopicRequest{Topic: "orders", Partition: zero, BeforeOffset: one})
	if err != nil || trimmed.GetPartitions()[0].GetLogStart() != 1 {
		t.Errorf("trim by offset: %v, %v", trimmed, err)
	}
	trimmed, err = w.topics.TrimTopic(t.Context(), &controlv1.TrimTopicRequest{Topic: "orders", BeforeTime: timestamppb.New(time.Unix(3, 0))})
	if err != nil || len(trimmed.GetPartitions()) != 3 || trimmed.GetPartitions()[0].GetLogStart() != 2 {
		t.Errorf("trim by time: %v, %v", trimmed, err)
	}
	if _, err := w.topics.TrimTopic(t.Context(), &controlv1.TrimTopicRequest{Topic: "orders", LocalOnly: true}); err != nil {
		t.Errorf("trim local: %v", err)
	}
	for name, req := range map[string]*controlv1.TrimTopicRequest{
		"nothing said":       {Topic: "orders"},
		"both":               {Topic: "orders", Partition: zero, BeforeOffset: one, BeforeTime: timestamppb.Now()},
		"offset everywhere":  {Topic: "orders", BeforeOffset: one},
		"negative":           {Topic: "orders", Partition: zero, BeforeOffset: proto.Int64(-1)},
		"bad time":           {Topic: "orders", BeforeTime: &timestamppb.Timestamp{Nanos: -5}},
		"unknown partition":  {Topic: "orders", Partition: proto.Int32(3), BeforeOffset: one},
		"negative partition": {Topic: "orders", Partition: proto.Int32(-1), LocalOnly: true},
	} {
		if _, err := w.topics.TrimTopic(t.Context(), req); kindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.topics.SealTopic(t.Context(), &controlv1.SealTopicRequest{Topic: "nope"}); kindOf(err) != fault.NotFound {
		t.Errorf("seal unknown: %v", err)
	}
}

// Invariant 1: which calls are repeated, and what is told where that is not known.
func TestCallsFollowTheActiveCoordinator(t *testing.T) {
	lost := status.Error(codes.Unavailable, "connection reset") // as of gRPC itself: no reason
	create := func(w *world) error {
		_, err := w.topics.CreateTopic(context.Background(), &controlv1.CreateTopicRequest{Topic: &controlv1.Topic{Topic: "fresh"}})
		return err
	}
	remove := func(w *world) error {
		_, err := w.topics.DeleteTopic(context.Background(), &controlv1.DeleteTopicRequest{Topic: "orders"})
		return err
	}
	update := func(etag string) func(w *world) error {
		return func(w *world) error {
			_, err := w.topics.UpdateTopic(context.Background(), &controlv1.UpdateTopicRequest{Topic: &controlv1.Topic{Topic: "orders", Etag: etag}})
			return err
		}
	}
	transfer := func(to int64) func(w *world) error {
		return func(w *world) error {
			_, err := w.topics.TransferLeader(context.Background(), &controlv1.TransferLeaderRequest{Topic: "orders", Broker: to})
			return err
		}
	}
	recovery := func(accept bool) func(w *world) error {
		return func(w *world) error {
			_, err := w.topics.ForceRecover(context.Background(), &controlv1.ForceRecoverRequest{Topic: "orders", AcceptLoss: accept})
			return err
		}
	}
	drain := func(w *world) error {
		_, err := controlv1.NewClusterServiceClient(w.conn).DrainBroker(context.Background(), &controlv1.DrainBrokerRequest{Broker: 1})
		return err
	}
	for name, c := range map[string]struct {
		call   func(*world) error
		before error // the first attempt is refused with this
		after  error // the first attempt is carried out and answered with this
		want   fault.Kind
		calls  int
	}{
		"create, standby":           {call: create, before: standin.Standby(), calls: 2},
		"create, answer lost":       {call: create, after: lost, calls: 2},
		"delete, standby":           {call: remove, before: standin.Standby(), calls: 2},
		"delete, answer lost":       {call: remove, after: lost, calls: 2},
		"update, standby":           {call: update("1"), before: standin.Standby(), calls: 2},
		"update, answer lost":       {call: update(""), after: lost, calls: 2},
		"update, etag, answer lost": {call: update("1"), after: lost, want: fault.OutcomeUnknown, calls: 1},
		"update, etag is old":       {call: update("0"), want: fault.Conflict, calls: 1},
		"transfer, answer lost":     {call: transfer(2), after: lost, calls: 2},
		"transfer to any, lost":     {call: transfer(0), after: lost, want: fault.OutcomeUnknown, calls: 1},
		"recover dry, answer lost":  {call: recovery(false), after: lost, calls: 2},
		"recover, answer lost":      {call: recovery(true), after: lost, want: fault.OutcomeUnknown, calls: 1},
		"recover, standby":          {call: recovery(true), before: standin.Standby(), calls: 2},
		"drain, answer lost":        {call: drain, after: lost, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var first sync.Once
			w.coordinator.Script(func(_ string, done func() (any, error)) (answer any, err error) {
				again := true
				first.Do(func() {
					again = false
					if c.before != nil {
						err = c.before
						return
					}
					if answer, err = done(); err == nil && c.after != nil {
						answer, err = nil, c.after
					}
				})
				if again {
					return done()
				}
				return answer, err
			})
			if err := c.call(w); kindOf(err) != c.want || err != nil != (c.want != fault.Internal) {
				t.Errorf("err = %v, want %s", err, c.want)
			}
			if got := len(w.coordinator.Calls()); got != c.calls {
				t.Errorf("%d calls, want %d", got, c.calls)
			}
		})
	}
}

func TestCoordinatorChangesAddress(t *testing.T) {
	w := newWorld(t)
	if _, err := w.topics.ListTopics(t.Context(), &controlv1.ListTopicsRequest{}); err != nil {
		t.Fatal(err)
	}
	w.coordinator.Script(func(string, func() (any, error)) (any, error) { return nil, standin.Standby() })
	done := make(chan error, 1)
	go func() {
		_, err := w.topics.ListTopics(context.Background(), &controlv1.ListTopicsRequest{})
		done <- err
	}()
	other := standin.NewCoordinator(t, w.World, "c2", "c2:6260")
	if err := <-done; err != nil {
		t.Errorf("err = %v", err)
	}
	if len(other.Calls()) != 1 {
		t.Errorf("the new coordinator was called %d times", len(other.Calls()))
	}
	w.Views.Change(func(v *topology.View) { v.Coordinator = nil })
	if _, err := w.topics.ListTopics(t.Context(), &controlv1.ListTopicsRequest{}); kindOf(err) != fault.Unavailable {
		t.Errorf("without a coordinator: %v", err)
	}
}

// Invariant 4.
func TestPanicCostsItsCallOnly(t *testing.T) {
	w := newWorld(t)
	data := datav1.NewDataServiceClient(w.conn)
	if _, err := data.GetRecord(t.Context(), &datav1.GetRecordRequest{}); kindOf(err) != fault.Internal || strings.Contains(err.Error(), "a bug") {
		t.Errorf("err = %v", err)
	}
	if _, err := data.Fetch(t.Context(), &datav1.FetchRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("the next call: %v", err)
	}
}

// Invariant 5: with all slots taken a call is refused with a hint; each is given back.
func TestCallsTakeSlots(t *testing.T) {
	w := newWorld(t)
	for range 20 {
		if _, err := w.topics.ListTopics(t.Context(), &controlv1.ListTopicsRequest{}); err != nil {
			t.Fatal(err)
		}
	}
	var leave []func()
	for len(leave) < 2 { // the last calls' slots may be on their way back
		if one, err := w.gate.Enter(); err == nil {
			leave = append(leave, one)
		}
	}
	_, err := w.topics.ListTopics(t.Context(), &controlv1.ListTopicsRequest{})
	if refused := faultwire.FromStatus(status.Convert(err)); refused.Kind != fault.Overloaded || refused.RetryAfter <= 0 {
		t.Errorf("without a slot: %v", err)
	}
	leave[0]()
	if _, err := w.topics.ListTopics(t.Context(), &controlv1.ListTopicsRequest{}); err != nil {
		t.Error(err)
	}
}
