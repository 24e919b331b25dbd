package command_test

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/cli/internal/command"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

// run runs a command and gives its exit code, output and errors.
func run(t *testing.T, env command.Env, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env.Args, env.Stdout, env.Stderr = args, &stdout, &stderr
	if env.Stdin == nil {
		env.Stdin = strings.NewReader("")
	}
	if env.Now == nil {
		env.Now = time.Now
	}
	code = command.Run(t.Context(), env)
	return code, stdout.String(), stderr.String()
}

// fakeTopics keeps the last request and answers a topic.
type fakeTopics struct {
	controlv1.UnimplementedTopicServiceServer

	mu   sync.Mutex
	last proto.Message
	err  error
}

func (f *fakeTopics) note(m proto.Message) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = m
	if f.err != nil {
		return faultwire.ToStatus(f.err).Err()
	}
	return nil
}

func aTopic(name string) *controlv1.Topic {
	return &controlv1.Topic{
		Namespace: "default", Topic: name, Id: "00000000-0000-4000-8000-000000000001", Partitions: 2, ReplicationFactor: 1, Etag: "7",
		Segment: &controlv1.SegmentSettings{Bytes: 1 << 20, Age: durationpb.New(time.Hour)}, BatchBytesMax: 1 << 20,
		CreateTime: timestamppb.New(time.Unix(0, 0)),
		PartitionStates: []*controlv1.Partition{
			{
				Partition: 0, Leader: 1, Epoch: 3, Active: true, HighWatermark: 12, LocalBytes: 1500, Durability: "fsync-quorum", Members: []int64{1, 2},
				Learners: []int64{3}, Lineage: "x", Move: &controlv1.Move{To: []int64{1, 3}, Reason: controlv1.MoveReason_MOVE_REASON_LOST, Started: true},
				Replicas: []*controlv1.Replica{
					{Broker: 1, Leader: true, Match: 14, Live: true},
					{Broker: 2, Match: 11, Lag: 3, HighWatermark: 10, LastHeard: durationpb.New(20 * time.Millisecond)},
					{Broker: 3, Learner: true, Match: 5, Lag: 9, LastHeard: durationpb.New(time.Second), Live: true},
				},
			},
			{Partition: 1, Leader: 1, Epoch: 1, Error: "no answer"},
		},
	}
}

func (f *fakeTopics) CreateTopic(_ context.Context, in *controlv1.CreateTopicRequest) (*controlv1.Topic, error) {
	return aTopic(in.GetTopic().GetTopic()), f.note(in)
}

func (f *fakeTopics) GetTopic(_ context.Context, in *controlv1.GetTopicRequest) (*controlv1.Topic, error) {
	return aTopic(in.GetTopic()), f.note(in)
}

func (f *fakeTopics) ListTopics(_ context.Context, in *controlv1.ListTopicsRequest) (*controlv1.ListTopicsResponse, error) {
	if in.GetPageToken() == "" {
		return &controlv1.ListTopicsResponse{Topics: []*controlv1.Topic{aTopic("alpha")}, NextPageToken: "x"}, f.note(in)
	}
	return &controlv1.ListTopicsResponse{Topics: []*controlv1.Topic{aTopic("beta")}}, f.note(in)
}

func (f *fakeTopics) UpdateTopic(_ context.Context, in *controlv1.UpdateTopicRequest) (*controlv1.Topic, error) {
	return aTopic(in.GetTopic().GetTopic()), f.note(in)
}

func (f *fakeTopics) DeleteTopic(_ context.Context, in *controlv1.DeleteTopicRequest) (*emptypb.Empty, error) {
	return &emptypb.Empty{}, f.note(in)
}

func (f *fakeTopics) SealTopic(_ context.Context, in *controlv1.SealTopicRequest) (*controlv1.SealTopicResponse, error) {
	return &controlv1.SealTopicResponse{Partitions: []*controlv1.SealTopicResponse_SealedPartition{{Partition: 1, SealedEnd: 5, Sealed: true}}}, f.note(in)
}

func (f *fakeTopics) TrimTopic(_ context.Context, in *controlv1.TrimTopicRequest) (*controlv1.TrimTopicResponse, error) {
	return &controlv1.TrimTopicResponse{Partitions: []*controlv1.TrimTopicResponse_TrimmedPartition{{Partition: 1, LogStart: 5, LocalStart: 6}}}, f.note(in)
}

func startFake(t *testing.T) (*fakeTopics, command.Env) {
	t.Helper()
	var lc net.ListenConfig
	lis, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeTopics{}
	server := grpc.NewServer()
	controlv1.RegisterTopicServiceServer(server, f)
	controlv1.RegisterClusterServiceServer(server, &fakeCluster{topics: f})
	done := make(chan error, 1)
	go func() { done <- server.Serve(lis) }()
	t.Cleanup(func() { server.Stop(); <-done })
	return f, command.Env{Environ: []string{"SQ_API=" + lis.Addr().String()}}
}

func TestTopicRequests(t *testing.T) {
	f, env := startFake(t)
	one := int32(1)
	five := int64(5)
	for _, c := range []struct {
		args string
		want proto.Message
		out  string
	}{
		{
			"create orders --partitions 2 --retention 7d --segment-bytes 64KiB --durability relaxed --batch-bytes 8MiB",
			&controlv1.CreateTopicRequest{Topic: &controlv1.Topic{
				Topic: "orders", Partitions: 2, Retention: &controlv1.Retention{Time: durationpb.New(7 * 24 * time.Hour)},
				LocalRetention: &controlv1.LocalRetention{}, Segment: &controlv1.SegmentSettings{Bytes: 64 << 10}, Tier: &controlv1.TierSettings{},
				Durability: controlv1.Durability_DURABILITY_RELAXED, BatchBytesMax: 8 << 20,
			}},
			"created orders  partitions 2  replicas 1\n",
		},
		{
			"alter orders --retention 0s --no-tier --etag 7",
			&controlv1.UpdateTopicRequest{
				Topic: &controlv1.Topic{
					Topic: "orders", Etag: "7", Retention: &controlv1.Retention{}, LocalRetention: &controlv1.LocalRetention{},
					Segment: &controlv1.SegmentSettings{}, Tier: &controlv1.TierSettings{Disabled: true},
				},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"retention.time", "tier.disabled"}},
			},
			"altered orders  retention.time, tier.disabled\n",
		},
		{
			"create users --cleanup compact --tombstone-age 1h",
			&controlv1.CreateTopicRequest{Topic: &controlv1.Topic{
				Topic: "users", Retention: &controlv1.Retention{}, LocalRetention: &controlv1.LocalRetention{}, Segment: &controlv1.SegmentSettings{},
				Cleanup: controlv1.Cleanup_CLEANUP_COMPACT, Compaction: &controlv1.CompactionSettings{TombstoneAge: durationpb.New(time.Hour)},
				Tier: &controlv1.TierSettings{Disabled: true},
			}},
			"created users  partitions 2  replicas 1\n",
		},
		{
			"alter orders --cleanup delete",
			&controlv1.UpdateTopicRequest{
				Topic: &controlv1.Topic{
					Topic: "orders", Retention: &controlv1.Retention{}, LocalRetention: &controlv1.LocalRetention{}, Segment: &controlv1.SegmentSettings{},
					Tier: &controlv1.TierSettings{}, Cleanup: controlv1.Cleanup_CLEANUP_DELETE,
				},
				UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"cleanup"}},
			},
			"altered orders  cleanup\n",
		},
		{"delete orders --id x --namespace team", &controlv1.DeleteTopicRequest{Namespace: "team", Topic: "orders", Id: "x"}, "deleted orders\n"},
		{"seal orders --partition 1", &controlv1.SealTopicRequest{Topic: "orders", Partition: &one}, "orders/1  sealed to 5\n"},
		{"seal orders", &controlv1.SealTopicRequest{Topic: "orders"}, "orders/1  sealed to 5\n"},
		{
			"trim orders --partition 1 --before-offset 5",
			&controlv1.TrimTopicRequest{Topic: "orders", Partition: &one, BeforeOffset: &five}, "orders/1  log from 5  local from 6\n",
		},
		{
			"trim orders --before-time 1970-01-01T00:00:05Z",
			&controlv1.TrimTopicRequest{Topic: "orders", BeforeTime: timestamppb.New(time.Unix(5, 0))}, "orders/1  log from 5  local from 6\n",
		},
		{"trim orders --local", &controlv1.TrimTopicRequest{Topic: "orders", LocalOnly: true}, "orders/1  log from 5  local from 6\n"},
	} {
		code, out, errs := run(t, env, append([]string{"topic"}, strings.Fields(c.args)...)...)
		if code != 0 || out != c.out || errs != "" {
			t.Errorf("%s: code %d, %q, %q", c.args, code, out, errs)
		}
		f.mu.Lock()
		diff := cmp.Diff(c.want, f.last, protocmp.Transform(), protocmp.IgnoreFields(&controlv1.CreateTopicRequest{}, "request_id"))
		f.mu.Unlock()
		if diff != "" {
			t.Errorf("%s:\n%s", c.args, diff)
		}
	}
}

func TestTopicShows(t *testing.T) {
	_, env := startFake(t)
	for args, want := range map[string][]string{
		"list":         {"TOPIC", "alpha", "beta", "quorum", "for ever"},
		"list -o json": {`"topic":`, `"alpha"`, `"beta"`},
		"describe one": {"one", "segments", "1h0m0s or 1MiB", "active", "fsync-quorum", "1.5KiB", "no answer"},
		"describe  one": {
			"active, moving to 1,3 (lost), recovered by force", "1,2", "leader", "member, down", "20ms ago", "learner",
		},
		"describe one -o json": {`"highWatermark":`, `"12"`, `"etag":`},
	} {
		code, out, errs := run(t, env, append([]string{"topic"}, strings.Fields(args)...)...)
		for _, word := range want {
			if code != 0 || errs != "" || !strings.Contains(out, word) {
				t.Errorf("%s: code %d, %q is not in %q %q", args, code, word, out, errs)
			}
		}
	}
}

func TestUsageEndsWithTwo(t *testing.T) {
	for _, args := range []string{
		"colour", "topic", "topic paint", "topic create", "topic create a b", "topic create a --partitions x", "topic create a --batch-bytes 1kb",
		"topic alter a", "topic trim a", "topic trim a --before-offset 3", "topic trim a --before-offset 3 --partition 1 --before-time 09:00",
		"topic trim a --before-time noon", "topic list -o yaml", "produce", "produce a b c", "produce a b -f c", "produce a b --format yaml",
		"produce a b --codec rle", "produce a b --header x", "produce a b --partition -2", "consume", "consume a -f --until-end", "consume a --from yesterday",
		"consume a -o yaml", "consume a -o json --format raw", "consume a -n -1", "bench", "bench produce --record-size 0", "bench produce --clients 0",
		"dev --brokers -1", "dev extra",
		"cluster", "cluster stauts", "cluster reassign t", "cluster reassign t/x --brokers 1", "cluster transfer-leader t", "cluster drain x", "cluster can-stop 0",
		"cluster decommission", "admin", "admin force-recover t",
	} {
		code, out, errs := run(t, command.Env{}, strings.Fields(args)...)
		if code != 2 || out != "" || !strings.HasPrefix(errs, "sq: ") || !strings.Contains(errs, "--help'") {
			t.Errorf("sq %s: code %d, %q, %q", args, code, out, errs)
		}
	}
}

func TestFailureEndsWithOneAndAdvice(t *testing.T) {
	f, env := startFake(t)
	f.err = fault.Errorf(fault.NotFound, `topic "x" does not exist`)
	code, out, errs := run(t, env, "topic", "describe", "x")
	if code != 1 || out != "" || !strings.Contains(errs, `topic "x" does not exist`) || !strings.Contains(errs, "sq topic create") {
		t.Errorf("code %d, %q, %q", code, out, errs)
	}
	code, _, errs = run(t, command.Env{Environ: []string{"SQ_API=127.0.0.1:1"}}, "topic", "list")
	if code != 1 || !strings.Contains(errs, "sq dev") || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("nobody there: code %d, %q", code, errs)
	}
	code, _, errs = run(t, command.Env{Environ: []string{"SQ_ADDR=127.0.0.1:1"}}, "produce", "x", "y")
	if code != 1 || !strings.Contains(errs, "sq dev") || !strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("nobody there: code %d, %q", code, errs)
	}
}

func TestCompletesNamesOnTheServer(t *testing.T) {
	_, env := startFake(t)
	for args, want := range map[string]string{
		"__complete topic describe ":   "alpha\nbeta\n:4\n",
		"__complete consume al":        "alpha\n:4\n",
		"__complete topic describe a ": ":4\n",
	} {
		fields := strings.Split(args, " ")
		if code, out, _ := run(t, env, fields...); code != 0 || out != want {
			t.Errorf("%s: code %d, %q", args, code, out)
		}
	}
}

func TestVersion(t *testing.T) {
	if code, out, _ := run(t, command.Env{}, "version"); code != 0 || !strings.HasPrefix(out, "sq ") {
		t.Errorf("code %d, %q", code, out)
	}
	if code, out, _ := run(t, command.Env{}, "version", "-o", "json"); code != 0 || !strings.Contains(out, `"version"`) {
		t.Errorf("code %d, %q", code, out)
	}
}
