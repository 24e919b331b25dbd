package survey_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type views struct{ view *topology.View }

func (v views) View() *topology.View { return v.view }

// broker answers for its partitions with an even index: the replica is of the same number, and ends at ten times it. A mute one answers nothing.
type broker struct {
	mute  bool
	mu    sync.Mutex
	calls int
}

func (b *broker) Handle(_ context.Context, req *frame.Request) {
	b.mu.Lock()
	b.calls++
	b.mu.Unlock()
	if b.mute {
		return
	}
	if req.Message.Which() == wirecapnp.Request_Which_partitionState {
		in, _ := req.Message.PartitionState()
		_ = req.Reply(func(res wirecapnp.Response) error { return progress(res, uint64(in.Partition())) }, nil)
		return
	}
	in, _ := req.Message.Positions()
	asked, _ := in.Partitions()
	_ = req.Reply(func(res wirecapnp.Response) error {
		out, err := res.NewPositions()
		if err != nil {
			return err
		}
		list, err := out.NewPositions(int32(asked.Len()))
		for i := range asked.Len() {
			index := uint64(asked.At(i).Partition())
			if index%2 == 1 {
				continue
			}
			replica, err := list.At(i).NewReplica()
			if err != nil {
				return err
			}
			replica.SetLo(index)
			list.At(i).SetKnown(true)
			list.At(i).SetLastEpoch(3)
			list.At(i).SetEnd(10 * index)
			list.At(i).SetFaulty(index == 4)
		}
		return err
	}, nil)
}

func progress(res wirecapnp.Response, index uint64) error {
	out, err := res.NewPartitionState()
	if err != nil {
		return err
	}
	out.SetEpoch(index)
	out.SetHighWatermark(90)
	out.SetEnd(100)
	list, err := out.NewReplicas(1)
	if err != nil {
		return err
	}
	list.At(0).SetMatch(80)
	list.At(0).SetLastHeardMillis(20)
	replica, err := list.At(0).NewReplica()
	replica.SetLo(7)
	return err
}

// serve runs a broker until stop.
func serve(t *testing.T, net *memnet.Network, addr string, b *broker) (stop func()) {
	t.Helper()
	listener, err := net.Listen(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	server := frame.NewServer(frame.ServerConfig{Handler: b, Accept: func(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
		if hello.Role != wirecapnp.Role_coordinator {
			t.Errorf("hello as %v", hello.Role)
		}
		return frame.ServerInfo{ClusterID: hello.ClusterID}, nil
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ctx, listener) }()
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); <-done }) }
	t.Cleanup(stop)
	return stop
}

func world(t *testing.T, addrs ...string) (*survey.Surveyor, *memnet.Network) {
	v := &topology.View{Brokers: map[partition.NodeID]topology.Broker{}}
	for i, addr := range addrs {
		v.Brokers[partition.NodeID(i+1)] = topology.Broker{Live: &topology.Versioned[topology.Live]{Value: topology.Live{Capnp: addr}}}
	}
	net := memnet.New()
	s := survey.New(survey.Config{Views: views{v}, Network: net, ID: "c"})
	t.Cleanup(s.Close)
	return s, net
}

// Two brokers answer, in parts where they are asked much; one is mute, one is gone, and neither keeps the others from being heard.
func TestPositions(t *testing.T) {
	s, net := world(t, "one:1", "two:1", "mute:1", "gone:1")
	one, mute := &broker{}, &broker{mute: true}
	serve(t, net, "one:1", one)
	serve(t, net, "two:1", &broker{})
	serve(t, net, "mute:1", mute)
	many := make([]partition.ID, 2500)
	for i := range many {
		many[i] = partition.ID{Topic: partition.UUIDOf(1, 1), Index: partition.Index(i)}
	}
	few := []partition.ID{{Topic: partition.UUIDOf(1, 2), Index: 4}, {Topic: partition.UUIDOf(1, 2), Index: 5}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	told, failed := s.Positions(ctx, []survey.Question{{Broker: 1, Partitions: many}, {Broker: 2, Partitions: few}, {Broker: 3, Partitions: few}, {Broker: 4, Partitions: few}, {Broker: 9, Partitions: few}})
	if len(told) != 1251 || len(failed) != 3 || failed[3] == nil || failed[4] == nil || failed[9] == nil {
		t.Errorf("%d told, failed %v", len(told), failed)
	}
	want := survey.Position{LastEpoch: 3, End: 40, Faulty: true}
	if diff := cmp.Diff(want, told[survey.Replica{Partition: few[0], ID: partition.UUIDOf(0, 4)}]); diff != "" {
		t.Error(diff)
	}
	if one.calls != 3 {
		t.Errorf("2,500 partitions took %d calls", one.calls)
	}
}

func TestProgress(t *testing.T) {
	s, net := world(t, "one:1")
	stop := serve(t, net, "one:1", &broker{})
	want := survey.Progress{Epoch: 6, HighWatermark: 90, End: 100, Replicas: map[partition.UUID]survey.ReplicaProgress{
		partition.UUIDOf(0, 7): {Match: 80, LastHeard: 20 * time.Millisecond},
	}}
	ask := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		got, err := s.Progress(ctx, 1, partition.ID{Index: 6})
		if diff := cmp.Diff(want, got); err == nil && diff != "" {
			t.Error(diff)
		}
		return err
	}
	if err := ask(); err != nil {
		t.Error(err)
	}
	stop()
	if err := ask(); err == nil {
		t.Error("a broker that is gone answers")
	}
	serve(t, net, "one:1", &broker{}) // it runs anew: the next question finds it
	for ask() != nil {
		if t.Context().Err() != nil {
			t.Fatal("it is not found again")
		}
	}
}
