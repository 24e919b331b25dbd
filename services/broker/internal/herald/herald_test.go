package herald

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport/memnet"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/roster"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	topicID = partition.UUIDOf(1, 2)
	diskID  = partition.UUIDOf(3, 4)
)

// scene is what a herald sees, changed by the test.
type scene struct {
	mu struct {
		sync.Mutex
		view        *topology.View
		viewChanged chan struct{}
		suspects    []peer.Suspect
		changed     chan struct{}
		lost        []roster.Lost
		disk        Disk
	}
}

func newScene() *scene {
	s := &scene{}
	s.mu.viewChanged, s.mu.changed = make(chan struct{}), make(chan struct{})
	s.mu.disk = Disk{ID: diskID, State: DiskOK, Free: 1000, Total: 2000}
	s.mu.view = &topology.View{
		Brokers: map[partition.NodeID]topology.Broker{}, Topics: map[partition.UUID]topology.Versioned[topology.Topic]{topicID: {}},
		Partitions: map[partition.UUID][]topology.Versioned[topology.Assignment]{},
	}
	return s
}

func (s *scene) change(with func(next *topology.View)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := *s.mu.view
	next.Brokers, next.Partitions = maps.Clone(next.Brokers), maps.Clone(next.Partitions)
	with(&next)
	s.mu.view = &next
	close(s.mu.viewChanged)
	s.mu.viewChanged = make(chan struct{})
}

func (s *scene) suspect(all ...peer.Suspect) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.suspects = all
	close(s.mu.changed)
	s.mu.changed = make(chan struct{})
}

func locked[T any](s *scene, get func() T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return get()
}

// views and suspicions are the scene as its two interfaces.
type (
	views      struct{ *scene }
	suspicions struct{ *scene }
)

func (v views) View() *topology.View {
	return locked(v.scene, func() *topology.View { return v.mu.view })
}

func (v views) Changed() <-chan struct{} {
	return locked(v.scene, func() <-chan struct{} { return v.mu.viewChanged })
}

func (v suspicions) Suspects() []peer.Suspect {
	return locked(v.scene, func() []peer.Suspect { return v.mu.suspects })
}

func (v suspicions) Changed() <-chan struct{} {
	return locked(v.scene, func() <-chan struct{} { return v.mu.changed })
}

// coordinator takes reports.
type coordinator struct {
	coordinatorv1.UnimplementedCoordinatorServiceServer
	took chan *coordinatorv1.ReportRequest
}

func (c *coordinator) Report(_ context.Context, in *coordinatorv1.ReportRequest) (*coordinatorv1.ReportResponse, error) {
	c.took <- in
	return &coordinatorv1.ReportResponse{}, nil
}

type rig struct {
	*scene
	t      *testing.T
	net    *memnet.Network
	herald *Herald
}

func newRig(t *testing.T) *rig {
	r := &rig{scene: newScene(), t: t, net: memnet.New()}
	var err error
	r.herald, err = New(Config{
		Self: 1, Incarnation: 7, Topology: views{r.scene}, Suspects: suspicions{r.scene}, Network: r.net.At("broker"), Clock: clock.Real(),
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
		Lost: func() []roster.Lost { return locked(r.scene, func() []roster.Lost { return r.mu.lost }) },
		Disk: func() Disk { return locked(r.scene, func() Disk { return r.mu.disk }) },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.herald.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return r
}

// lead starts a coordinator on a host and makes it the active one.
func (r *rig) lead(host string, revision int64) (c *coordinator, stop func()) {
	r.t.Helper()
	listener, err := r.net.At(host).Listen(r.t.Context(), ":6260")
	if err != nil {
		r.t.Fatal(err)
	}
	c = &coordinator{took: make(chan *coordinatorv1.ReportRequest, 1000)}
	server := grpc.NewServer()
	coordinatorv1.RegisterCoordinatorServiceServer(server, c)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	r.change(func(next *topology.View) {
		next.Coordinator = &topology.Versioned[topology.Live]{Value: topology.Live{GRPC: listener.Addr().String()}, CreateRevision: revision}
	})
	return c, stop
}

// within counts the reports of the next d and gives the last.
func (c *coordinator) within(d time.Duration) (n int, last *coordinatorv1.ReportRequest) {
	time.Sleep(d)
	synctest.Wait()
	for len(c.took) > 0 {
		last = <-c.took
		n++
	}
	return n, last
}

// A report says everything, at once where something is new, every 2 s while there is something to do, and every 5 s else.
func TestReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		c, _ := r.lead("c1", 1)
		quiet := &coordinatorv1.ReportRequest{
			Broker: 1, Incarnation: 7, Disks: []*coordinatorv1.DiskState{{Disk: diskID.String(), State: "ok", FreeBytes: 1000, TotalBytes: 2000}},
		}
		if n, got := c.within(retryWait); n != 1 || !cmp.Equal(quiet, got, protocmp.Transform()) {
			t.Errorf("%d reports to a new coordinator, the last %v", n, got)
		}
		if n, _ := c.within(20 * time.Second); n != 4 {
			t.Errorf("%d quiet reports in 20 s", n)
		}
		locked(r.scene, func() any { r.mu.disk.Free--; return nil })
		if n, _ := c.within(quietEvery - retryWait - time.Millisecond); n > 0 {
			t.Error("a byte less of room is news")
		}
		c.within(time.Second)
		r.suspect(peer.Suspect{Broker: 2, Incarnation: 3})
		if n, got := c.within(time.Millisecond); n != 1 || len(got.GetSuspects()) != 1 || got.GetSuspects()[0].GetIncarnation() != 3 {
			t.Errorf("%d reports of a suspicion, the last %v", n, got)
		}
		if n, _ := c.within(20 * time.Second); n != 10 {
			t.Errorf("%d reports in 20 s of a suspicion", n)
		}
		r.suspect()
		locked(r.scene, func() any {
			r.mu.lost = []roster.Lost{{Partition: partition.ID{Topic: topicID, Index: 4}, Replica: diskID, Reason: "its disk is new"}}
			r.mu.disk.State = DiskSlow
			return nil
		})
		n, got := c.within(lookEvery + time.Millisecond)
		want := &coordinatorv1.LostReplica{Topic: topicID.String(), Partition: 4, Replica: diskID.String(), Reason: "its disk is new"}
		if n == 0 || len(got.GetSuspects()) != 0 || len(got.GetLost()) != 1 || !cmp.Equal(want, got.GetLost()[0], protocmp.Transform()) ||
			got.GetDisks()[0].GetState() != "slow" {
			t.Errorf("%d reports of a loss, the last %v", n, got)
		}
	})
}

// A coordinator that does not answer, or is gone, loses nothing: the next one hears everything at once.
func TestCoordinatorChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first, stop := r.lead("c1", 1)
		first.within(time.Second)
		r.net.Cut("broker", "c1")
		r.suspect(peer.Suspect{Broker: 2, Incarnation: 3})
		if n, _ := first.within(10 * time.Second); n != 0 {
			t.Errorf("%d reports came through a cut", n)
		}
		second, _ := r.lead("c2", 2)
		if n, got := second.within(callTimeout + retryWait); n == 0 || len(got.GetSuspects()) != 1 {
			t.Errorf("%d reports to the next coordinator, the last %v", n, got)
		}
		r.net.Heal("broker", "c1")
		stop()
		third, _ := r.lead("c1", 3)
		if n, _ := third.within(10 * time.Millisecond); n != 1 {
			t.Errorf("%d reports to one that becomes active where another was", n)
		}
	})
}

func (r *rig) member(broker int) partition.Member {
	return partition.Member{Broker: partition.NodeID(broker), Replica: partition.UUIDOf(9, uint64(broker))}
}

// assign puts a partition under a leader, with members whose brokers are live but for broker 9.
func (r *rig) assign(status topology.Status, leader int, brokers ...int) {
	r.change(func(next *topology.View) {
		a := topology.Assignment{Status: status, Leader: topology.Leader{Broker: partition.NodeID(leader), Incarnation: 7}}
		for _, b := range brokers {
			a.Members = append(a.Members, r.member(b))
			if b != 9 {
				next.Brokers[partition.NodeID(b)] = topology.Broker{Live: &topology.Versioned[topology.Live]{}}
			}
		}
		a.Base.Members = a.Members
		next.Partitions[topicID] = []topology.Versioned[topology.Assignment]{{Value: a, ModRevision: 1}}
	})
}

// A drain waits until others lead, and no longer than there is hope.
func TestDrain(t *testing.T) {
	for name, test := range map[string]struct {
		begin   func(r *rig)
		during  func(r *rig) // a second later
		timeout time.Duration
		want    time.Duration
	}{
		"leads nothing":               {begin: func(r *rig) { r.assign(topology.Active, 2, 1, 2) }, timeout: time.Minute},
		"alone":                       {begin: func(r *rig) { r.assign(topology.Active, 1, 1) }, timeout: time.Minute},
		"others are gone":             {begin: func(r *rig) { r.assign(topology.Active, 1, 1, 9) }, timeout: time.Minute},
		"others do not answer":        {begin: func(r *rig) { r.assign(topology.Active, 1, 1, 2); r.suspect(peer.Suspect{Broker: 2}) }, timeout: time.Minute},
		"not wanted":                  {begin: func(r *rig) { r.assign(topology.Active, 1, 1, 2) }},
		"handed over":                 {begin: func(r *rig) { r.assign(topology.Active, 1, 1, 2) }, during: func(r *rig) { r.assign(topology.Active, 2, 1, 2) }, timeout: time.Minute, want: time.Second},
		"needed by an election":       {begin: func(r *rig) { r.assign(topology.Electing, 2, 1, 2) }, during: func(r *rig) { r.assign(topology.Active, 2, 1, 2) }, timeout: time.Minute, want: time.Second},
		"nobody takes it":             {begin: func(r *rig) { r.assign(topology.Active, 1, 1, 2) }, timeout: time.Minute, want: stalledAfter},
		"nobody takes it for so long": {begin: func(r *rig) { r.assign(topology.Active, 1, 1, 2) }, timeout: 2 * time.Second, want: 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				c, _ := r.lead("c1", 1)
				test.begin(r)
				time.Sleep(time.Second)
				c.within(0)
				started, ended := time.Now(), make(chan time.Time, 1)
				go func() {
					r.herald.Drain(t.Context(), test.timeout)
					ended <- time.Now()
				}()
				n, report := c.within(time.Millisecond)
				if test.want > 0 && (n != 1 || !report.GetDraining()) {
					t.Errorf("%d reports when it begins, the last %v", n, report)
				}
				time.Sleep(time.Second - time.Millisecond)
				if test.during != nil {
					test.during(r)
				}
				if got := (<-ended).Sub(started); got != test.want {
					t.Errorf("took %v, want %v", got, test.want)
				}
			})
		})
	}
}
