package doctor_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/seedqueue/sq/cli/internal/doctor"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// gateway answers what the test says.
type gateway struct {
	controlv1.UnimplementedClusterServiceServer
	controlv1.UnimplementedNamespaceServiceServer
	controlv1.UnimplementedTopicServiceServer

	cluster    *controlv1.Cluster
	brokers    []*controlv1.Broker
	partitions []*controlv1.Partition
	paths      map[string]string // HTTP path → answer; a leading number is the status
}

func healthy() *gateway {
	return &gateway{
		cluster:    &controlv1.Cluster{ClusterId: "c", Coordinator: "coordinator-1", Tierers: 1, Partitions: 1},
		brokers:    []*controlv1.Broker{{Id: 1, Live: true, Software: "1.0"}, {Id: 2, Live: true, Software: "1.0"}},
		partitions: []*controlv1.Partition{{Active: true, Durability: "fsync-quorum"}},
		paths:      map[string]string{"/readyz": "200 ready", "/version": `200 {"version":"1.0"}`, "/metrics": "200 " + room(50<<30)},
	}
}

// room is the metrics of a broker with this much free of 100 GiB.
func room(free float64) string {
	return fmt.Sprintf("# HELP x y\nsq_broker_disk_refuses{instance=\"a\"} 0\nsq_broker_disk_bytes{instance=\"a\"} %g\nsq_broker_disk_free_bytes{instance=\"a\"} %g\n",
		float64(100<<30), free)
}

func (g *gateway) GetCluster(context.Context, *controlv1.GetClusterRequest) (*controlv1.Cluster, error) {
	return g.cluster, nil
}

func (g *gateway) ListBrokers(context.Context, *controlv1.ListBrokersRequest) (*controlv1.ListBrokersResponse, error) {
	return &controlv1.ListBrokersResponse{Brokers: g.brokers}, nil
}

func (g *gateway) ListNamespaces(context.Context, *controlv1.ListNamespacesRequest) (*controlv1.ListNamespacesResponse, error) {
	return &controlv1.ListNamespacesResponse{Namespaces: []*controlv1.Namespace{{Namespace: "shop"}}}, nil
}

func (g *gateway) ListTopics(_ context.Context, in *controlv1.ListTopicsRequest) (*controlv1.ListTopicsResponse, error) {
	return &controlv1.ListTopicsResponse{Topics: []*controlv1.Topic{{Namespace: in.GetNamespace(), Topic: "orders"}}}, nil
}

func (g *gateway) GetTopic(_ context.Context, in *controlv1.GetTopicRequest) (*controlv1.Topic, error) {
	return &controlv1.Topic{Namespace: in.GetNamespace(), Topic: in.GetTopic(), PartitionStates: g.partitions}, nil
}

func (g *gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var status int
	answer := g.paths[r.URL.Path]
	if _, err := fmt.Sscanf(answer, "%d", &status); err != nil {
		http.NotFound(w, r)
		return
	}
	w.WriteHeader(status)
	fmt.Fprint(w, answer[4:])
}

// examine runs doctor on a gateway.
func examine(t *testing.T, g *gateway, alter func(*doctor.Config)) []doctor.Result {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	controlv1.RegisterClusterServiceServer(server, g)
	controlv1.RegisterNamespaceServiceServer(server, g)
	controlv1.RegisterTopicServiceServer(server, g)
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	web := httptest.NewServer(g)
	defer web.Close()
	addr := strings.TrimPrefix(web.URL, "http://")
	cfg := doctor.Config{
		Data: "data:1", API: listener.Addr().String(), HTTP: addr, Metrics: []string{addr, "127.0.0.1:1"}, Version: "1.0", OpenFiles: 1 << 20,
		Now: time.Now, Dial: func(context.Context) error { return nil }, Control: conn,
		Health: map[string]string{"broker": "127.0.0.1:1"},
	}
	if alter != nil {
		alter(&cfg)
	}
	return doctor.Run(t.Context(), cfg)
}

// Each mistake is found, as bad as it is, and nothing else with it.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*gateway)
		alter func(*doctor.Config)
		check string
		want  doctor.Status
		text  string
	}{
		{name: "none"},
		{name: "no coordinator", spoil: func(g *gateway) { g.cluster.Coordinator = "" }, check: "coordinator", want: doctor.Fail, text: "no coordinator"},
		{name: "a dead broker", spoil: func(g *gateway) { g.brokers[1].Live = false }, check: "brokers", want: doctor.Warn, text: "1 of 2 are live; not live: 2"},
		{name: "only dead brokers", spoil: func(g *gateway) { g.brokers = g.brokers[:0] }, check: "brokers", want: doctor.Fail, text: "none of 0"},
		{name: "an old broker", spoil: func(g *gateway) { g.brokers[0].Software = "0.9" }, check: "version", want: doctor.Warn, text: "broker 1 runs 0.9"},
		{name: "an old gateway", spoil: func(g *gateway) { g.paths["/version"] = `200 {"version":"0.9"}` }, check: "version", want: doctor.Warn, text: "gateway runs 0.9"},
		{name: "no leader", spoil: func(g *gateway) { g.cluster.PartitionsWithoutLeader = 1 }, check: "leaders", want: doctor.Fail, text: "1 of 1 partitions"},
		{name: "no tierer", spoil: func(g *gateway) { g.cluster.Tierers = 0 }, check: "tierers", want: doctor.Warn, text: "no tierer"},
		{
			name: "no bucket", spoil: func(g *gateway) { g.paths["/readyz"] = "503 not ready: no such bucket" },
			alter: func(cfg *doctor.Config) { cfg.Health = map[string]string{"tierer": cfg.HTTP}; cfg.HTTP = "127.0.0.1:1" },
			check: "tierer", want: doctor.Fail, text: "no such bucket",
		},
		{name: "a gateway without etcd", spoil: func(g *gateway) { g.paths["/readyz"] = "503 not ready: etcd is away" }, check: "REST port", want: doctor.Fail, text: "etcd is away"},
		{
			name: "no data port", alter: func(cfg *doctor.Config) { cfg.Dial = func(context.Context) error { return errors.New("refused") } },
			check: "data port", want: doctor.Fail, text: "refused",
		},
		{name: "a partition that is not served", spoil: func(g *gateway) { g.partitions[0].Active = false }, check: "partitions", want: doctor.Fail, text: "shop/orders/0 (electing)"},
		{name: "a leader that is silent", spoil: func(g *gateway) { g.partitions[0].Error = "no answer" }, check: "partitions", want: doctor.Fail, text: "(no answer)"},
		{name: "weak acks", spoil: func(g *gateway) { g.partitions[0].Durability = "written-quorum" }, check: "durability", want: doctor.Warn, text: "(written-quorum)"},
		{name: "little room", spoil: func(g *gateway) { g.paths["/metrics"] = "200 " + room(12<<30) }, check: "disk", want: doctor.Warn, text: "12.0GiB of 100.0GiB free"},
		{
			name: "no room", spoil: func(g *gateway) { g.paths["/metrics"] = "200 " + strings.Replace(room(9<<30), "} 0", "} 1", 1) },
			check: "disk", want: doctor.Fail, text: "refuses records",
		},
		{name: "damage", spoil: func(g *gateway) { g.paths["/metrics"] += "sq_broker_scrub_faulty_segments 2\n" }, check: "damage", want: doctor.Fail, text: "2 damaged segments"},
		{name: "few files", alter: func(cfg *doctor.Config) { cfg.OpenFiles = 1024 }, check: "open files", want: doctor.Warn, text: "1024 files"},
		{
			name: "a wrong clock", alter: func(cfg *doctor.Config) { cfg.Now = func() time.Time { return time.Now().Add(time.Hour) } },
			check: "clock", want: doctor.Warn, text: "clock differs by",
		},
		{name: "no data directory", alter: func(cfg *doctor.Config) { cfg.DataDir = "nothing here" }, check: "data directory", want: doctor.Fail, text: "nothing here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := healthy()
			if c.spoil != nil {
				c.spoil(g)
			}
			results := examine(t, g, c.alter)
			found := false
			for _, r := range results {
				switch {
				case r.Status == doctor.OK && r.Next == "":
				case r.Check == c.check && r.Status == c.want && strings.Contains(r.Text, c.text) && r.Next != "":
					found = true
				case c.name == "no bucket" && r.Check == "REST port":
				default:
					t.Errorf("%+v", r)
				}
			}
			if found != (c.check != "") {
				t.Errorf("want %s %s with %q", c.check, c.want, c.text)
			}
		})
	}
}
