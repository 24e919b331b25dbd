package records

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/google/go-cmp/cmp"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"google.golang.org/protobuf/testing/protocmp"
)

// What goes in comes out: every kind of key, value and header, null and empty apart.
func TestRecordsComeBackAsTheyWent(t *testing.T) {
	w := newWorld(t, 1)
	number, err := structpb.NewValue(map[string]any{"a": 1.5})
	if err != nil {
		t.Fatal(err)
	}
	at := timestamppb.New(time.Unix(1_700_000_000, 123_456_000))
	in := []*datav1.NewRecord{
		{Timestamp: at},
		{Timestamp: at, KeyKind: &datav1.NewRecord_Key{}, Value: &datav1.NewRecord_Text{}},
		{Timestamp: at, KeyKind: &datav1.NewRecord_KeyData{KeyData: []byte{0xff}}, Value: &datav1.NewRecord_Data{Data: []byte{0xfe}}},
		{Timestamp: at, KeyKind: &datav1.NewRecord_KeyData{KeyData: []byte("k")}, Value: &datav1.NewRecord_Json{Json: number}},
		{Timestamp: at, Headers: []*datav1.Header{
			{Name: "null"},
			{Name: "text", Value: &datav1.Header_Text{Text: "é"}},
			{Name: "text", Value: &datav1.Header_Data{Data: []byte{0x80}}},
			{Name: "empty", Value: &datav1.Header_Data{}},
		}},
	}
	if _, err := w.services[0].Publish(t.Context(), &datav1.PublishRequest{Topic: "orders", Records: in}); err != nil {
		t.Fatal(err)
	}
	got, err := w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	appended := timestamppb.New(batch.Time(1_000_000))
	want := []*datav1.Record{
		{},
		{KeyKind: &datav1.Record_Key{}, Value: &datav1.Record_Text{}},
		{KeyKind: &datav1.Record_KeyData{KeyData: []byte{0xff}}, Value: &datav1.Record_Data{Data: []byte{0xfe}}},
		{KeyKind: &datav1.Record_Key{Key: "k"}, Value: &datav1.Record_Text{Text: `{"a":1.5}`}},
		{Headers: []*datav1.Header{
			{Name: "null"},
			{Name: "text", Value: &datav1.Header_Text{Text: "é"}},
			{Name: "text", Value: &datav1.Header_Data{Data: []byte{0x80}}},
			{Name: "empty", Value: &datav1.Header_Text{}},
		}},
	}
	for i, r := range want {
		r.Offset, r.Timestamp, r.AppendTime = int64(i), at, appended
	}
	if diff := cmp.Diff(want, got.GetRecords(), protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

// Invariant 2.
func TestPublishPlacesRecords(t *testing.T) {
	w := newWorld(t, 4)
	s := w.services[0]
	partitions := func(req *datav1.PublishRequest) []int32 {
		t.Helper()
		req.Topic = "orders"
		res, err := s.Publish(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		out := []int32{}
		for _, r := range res.GetResults() {
			if r.Offset == nil || r.GetError() != nil {
				t.Fatalf("not stored: %v", r)
			}
			out = append(out, r.GetPartition())
		}
		if res.GetDurability() != "fsync-quorum" {
			t.Errorf("durability %q", res.GetDurability())
		}
		return out
	}
	byKey := func(key string) int32 { return int32(batch.PartitionOfHash(batch.KeyHash([]byte(key)), 4)) }
	records := []*datav1.NewRecord{}
	want := []int32{}
	for i := range 40 {
		key := fmt.Sprint("key-", i)
		records, want = append(records, keyed(key, "v")), append(want, byKey(key))
	}
	if diff := cmp.Diff(want, partitions(&datav1.PublishRequest{Records: records})); diff != "" {
		t.Errorf("by key: %s", diff)
	}
	if got := partitions(&datav1.PublishRequest{Records: records[:2], Partition: proto.Int32(3)}); got[0] != 3 || got[1] != 3 {
		t.Errorf("named: %v", got)
	}
	seen := map[int32]bool{}
	for range 4 {
		got := partitions(&datav1.PublishRequest{Records: text("a", "b")})
		if got[0] != got[1] {
			t.Errorf("one request went to two partitions: %v", got)
		}
		seen[got[0]] = true
	}
	if len(seen) != 4 {
		t.Errorf("requests without keys went to %v", seen)
	}
	got := partitions(&datav1.PublishRequest{Records: []*datav1.NewRecord{text("a")[0], keyed("key-1", "b")}, IdempotencyKey: "once"})
	if got[0] != byKey("once") || got[1] != byKey("key-1") {
		t.Errorf("with an Idempotency-Key: %v", got)
	}
}

// Invariant 3: repeated through another gateway, nothing is stored twice; also where the first answer was lost.
func TestIdempotencyKeyMakesARetryHarmless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 1)
		lost := true
		w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
			if req.Message.Which() != wirecapnp.Request_Which_publish || !lost {
				return false
			}
			lost = false // stored, but nobody hears of it
			h, err := batch.ParseHeader(req.Body)
			if err != nil {
				t.Error(err)
			}
			w.Logs[0].Append(req.Body, h, 1, 1)
			w.Brokers[1].BreakConns()
			return true
		})
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(KeyMetadata, "order-7"))
		for i, s := range w.services {
			res, err := s.Publish(ctx, &datav1.PublishRequest{Topic: "orders", Records: text("a", "b"), IdempotencyKey: "the header wins"})
			if err != nil {
				t.Fatal(err)
			}
			for j, r := range res.GetResults() {
				if r.GetOffset() != int64(j) || !r.GetDuplicate() {
					t.Errorf("try %d, record %d: %v", i, j, r)
				}
			}
		}
		if end := w.Logs[0].End(); end != 2 {
			t.Errorf("%d records are stored", end)
		}
	})
}

// Without a key the lost answer is told as what it is.
func TestLostAnswerIsUnknown(t *testing.T) {
	w := newWorld(t, 1)
	w.Brokers[1].SetHook(func(context.Context, *frame.Request) bool {
		w.Brokers[1].BreakConns()
		return true
	})
	_, err := w.services[0].Publish(t.Context(), &datav1.PublishRequest{Topic: "orders", Records: text("a")})
	if !fault.Is(err, fault.OutcomeUnknown) {
		t.Errorf("err = %v", err)
	}
}

// Invariant 1: some stored, some not.
func TestEachRecordHasItsResult(t *testing.T) {
	w := newWorld(t, 2)
	w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
		if req.Message.Which() != wirecapnp.Request_Which_publish {
			return false
		}
		in, _ := req.Message.Publish()
		if in.Partition() == 0 {
			return false
		}
		_ = req.Fail(frame.Errorf(wirecapnp.ErrorKind_diskFull, "no room"))
		return true
	})
	records := []*datav1.NewRecord{}
	for i := range 20 {
		records = append(records, keyed(fmt.Sprint(i), "v"))
	}
	res, err := w.services[0].Publish(t.Context(), &datav1.PublishRequest{Topic: "orders", Records: records})
	if err != nil {
		t.Fatal(err)
	}
	next := int64(0)
	for i, r := range res.GetResults() {
		switch r.GetPartition() {
		case 0:
			if r.GetError() != nil || r.GetOffset() != next {
				t.Errorf("record %d: %v", i, r)
			}
			next++
		case 1:
			if r.GetError().GetReason() != "DISK_FULL" || !r.GetError().GetRetryable() || r.Offset != nil {
				t.Errorf("record %d: %v", i, r)
			}
		}
	}
	if _, err := w.services[0].Publish(t.Context(), &datav1.PublishRequest{Topic: "orders", Records: records[:1], Partition: proto.Int32(1)}); !fault.Is(err, fault.DiskFull) {
		t.Errorf("all failed: %v", err)
	}
}

// A request larger than a batch becomes several, in order.
func TestLargePublishIsCutIntoBatches(t *testing.T) {
	w := newWorld(t, 1)
	value := strings.Repeat("x", 100<<10)
	values := []string{}
	for i := range 40 {
		values = append(values, fmt.Sprint(i, value))
	}
	res, err := w.services[0].Publish(t.Context(), &datav1.PublishRequest{Topic: "orders", Records: text(values...)})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range res.GetResults() {
		if r.GetOffset() != int64(i) {
			t.Fatalf("record %d is at %d", i, r.GetOffset())
		}
	}
	got, err := w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", MaxBytes: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values, texts(got.GetRecords())); diff != "" {
		t.Error(diff[:200])
	}
	_, err = w.services[0].Publish(t.Context(), &datav1.PublishRequest{Topic: "orders", Records: text(values...), IdempotencyKey: "k"})
	if !fault.Is(err, fault.TooLarge) {
		t.Errorf("with an Idempotency-Key: %v", err)
	}
	if w.Logs[0].End() != 40 {
		t.Errorf("%d records are stored", w.Logs[0].End())
	}
}

func TestBadPublishes(t *testing.T) {
	w := newWorld(t, 2)
	record := func(r *datav1.NewRecord) *datav1.PublishRequest {
		return &datav1.PublishRequest{Topic: "orders", Records: []*datav1.NewRecord{keyed("fine", "fine"), r}}
	}
	for name, c := range map[string]struct {
		req  *datav1.PublishRequest
		want fault.Kind
	}{
		"no record":          {&datav1.PublishRequest{Topic: "orders"}, fault.Invalid},
		"too many":           {&datav1.PublishRequest{Topic: "orders", Records: make([]*datav1.NewRecord, 10_001)}, fault.Invalid},
		"null record":        {record(nil), fault.Invalid},
		"unknown topic":      {&datav1.PublishRequest{Topic: "nope", Records: text("a")}, fault.NotFound},
		"unknown namespace":  {&datav1.PublishRequest{Namespace: "nope", Topic: "orders", Records: text("a")}, fault.NotFound},
		"no topic":           {&datav1.PublishRequest{Records: text("a")}, fault.NotFound},
		"unknown partition":  {&datav1.PublishRequest{Topic: "orders", Records: text("a"), Partition: proto.Int32(2)}, fault.Invalid},
		"negative partition": {&datav1.PublishRequest{Topic: "orders", Records: text("a"), Partition: proto.Int32(-1)}, fault.Invalid},
		"long key":           {&datav1.PublishRequest{Topic: "orders", Records: text("a"), IdempotencyKey: strings.Repeat("k", 256)}, fault.Invalid},
		"large record":       {record(text(strings.Repeat("x", 2<<20))[0]), fault.TooLarge},
		"large record key":   {record(keyed(strings.Repeat("k", 65<<10), "v")), fault.TooLarge},
		"nameless header":    {record(&datav1.NewRecord{Headers: []*datav1.Header{{}}}), fault.Invalid},
		"many headers":       {record(&datav1.NewRecord{Headers: repeat(&datav1.Header{Name: "h"}, 1000)}), fault.TooLarge},
		"bad timestamp":      {record(&datav1.NewRecord{Timestamp: &timestamppb.Timestamp{Seconds: 1 << 60}}), fault.Invalid},
	} {
		if _, err := w.services[0].Publish(t.Context(), c.req); !fault.Is(err, c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs(KeyMetadata, "a", KeyMetadata, "b"))
	if _, err := w.services[0].Publish(ctx, &datav1.PublishRequest{Topic: "orders", Records: text("a")}); !fault.Is(err, fault.Invalid) {
		t.Errorf("two keys: %v", err)
	}
	if w.Logs[0].End()+w.Logs[1].End() != 0 {
		t.Error("something was stored")
	}
}

func repeat[T any](one T, n int) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = one
	}
	return out
}
