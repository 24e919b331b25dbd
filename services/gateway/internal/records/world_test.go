package records

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/proto/frame"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/route"
	"github.com/seedqueue/sq/services/gateway/internal/standin"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a cluster with the DataServices of two gateways.
type world struct {
	*standin.World
	services [2]*Service
}

func newWorld(t *testing.T, partitions int) *world {
	t.Helper()
	w := &world{World: standin.NewWorld(t, partitions)}
	for i := range w.services {
		router := route.NewRouter(w.Views, clock.Real())
		cluster := upstream.New(upstream.Config{
			Router: router, Network: w.Net.At("gateway"), Clock: clock.Real(), Metrics: prometheus.NewRegistry(),
			Pool: frame.NewPool(), Limits: upstream.DefaultLimits(),
		})
		publisher := cluster.Caller(upstream.Client{ID: "publisher"})
		w.services[i] = New(Config{
			Router: router, Clock: clock.Real(), Limits: DefaultLimits(), Publish: publisher,
			Reader: func() *upstream.Caller { return cluster.Caller(upstream.Client{ID: "reader"}) },
		})
		t.Cleanup(publisher.Close)
		t.Cleanup(w.services[i].Close)
	}
	return w
}

func text(values ...string) []*datav1.NewRecord {
	out := []*datav1.NewRecord{}
	for _, value := range values {
		out = append(out, &datav1.NewRecord{Value: &datav1.NewRecord_Text{Text: value}})
	}
	return out
}

func keyed(key, value string) *datav1.NewRecord {
	return &datav1.NewRecord{KeyKind: &datav1.NewRecord_Key{Key: key}, Value: &datav1.NewRecord_Text{Text: value}}
}

func texts(records []*datav1.Record) []string {
	out := []string{}
	for _, r := range records {
		out = append(out, r.GetText())
	}
	return out
}

// details of an error, as a caller over gRPC sees it.
func details(err error) (fault.Kind, map[string]string) {
	st := status.Convert(err)
	if _, ok := status.FromError(err); !ok {
		st = faultwire.ToStatus(err)
	}
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return faultwire.FromStatus(st).Kind, info.GetMetadata()
		}
	}
	return fault.KindOf(err), nil
}

func millis(n int64) *durationpb.Duration { return &durationpb.Duration{Nanos: int32(n * 1_000_000)} }
