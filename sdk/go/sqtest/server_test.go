package sqtest_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheRulesAClientSees(t *testing.T) {
	server := sqtest.Start(t)
	server.AutoCreate(3)
	c := server.Client(t, sq.Backoff(time.Millisecond, time.Millisecond))
	p := c.Producer("orders")
	ack, err := p.Send(t.Context(), sq.Record{Key: []byte("k"), Value: []byte("one")})
	if err != nil || ack.Offset != 0 || ack.Durability != sq.DurabilityNone {
		t.Fatalf("%+v, %v", ack, err)
	}
	partition := ack.Partition
	server.AppendControl("orders", partition)
	server.Inject(sqtest.Publish, sqtest.DropAfter(), 1)
	ack, err = p.Send(t.Context(), sq.Record{Key: []byte("k"), Value: []byte("two")})
	if err != nil || ack.Offset != 2 || !ack.Duplicate {
		t.Fatalf("%+v, %v", ack, err)
	}
	want := [][]string{nil, nil, nil}
	want[partition] = []string{"one", "two"}
	if diff := cmp.Diff(want, server.Values("orders")); diff != "" {
		t.Error(diff)
	}
	if end := server.End("orders", partition); end != 3 {
		t.Errorf("end %d", end)
	}
	server.Trim("orders", partition, 2)
	if info, err := c.ListOffsets(t.Context(), "orders", partition, sq.Earliest); err != nil || info.Offset != 2 {
		t.Errorf("%+v, %v", info, err)
	}
	if n := server.Calls(sqtest.Publish); n != 3 {
		t.Errorf("%d publish calls", n)
	}
	server.AutoCreate(0)
	if _, err := c.Producer("others").Send(t.Context(), sq.Record{}); !errors.Is(err, sq.ErrTopicNotFound) {
		t.Errorf("without auto-create: %v", err)
	}
}
