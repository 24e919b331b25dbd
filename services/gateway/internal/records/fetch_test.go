package records

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/google/go-cmp/cmp"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
)

// Invariants 4 and 5: read through two gateways in turn, by small steps of every size, each record comes exactly once, in order.
func TestCursorReadsEverythingOnce(t *testing.T) {
	for _, step := range []*datav1.FetchRequest{{}, {MaxRecords: 1}, {MaxRecords: 3}, {MaxRecords: 7}, {MaxBytes: 1}, {MaxBytes: 9}, {MaxBytes: 40}} {
		w := newWorld(t, 4)
		want := map[int32][]string{}
		for i := range 60 {
			value := fmt.Sprint("value-", i)
			index := int32(i * i % 7 % 4) // uneven: partition 3 stays empty
			want[index] = append(want[index], value)
			if _, err := w.services[i%2].Publish(t.Context(), &datav1.PublishRequest{Topic: "orders", Partition: &index, Records: text(value)}); err != nil {
				t.Fatal(err)
			}
		}
		got := map[int32][]string{}
		req := proto.CloneOf(step)
		req.Topic = "orders"
		for i := 0; ; i++ {
			res, err := w.services[i%2].Fetch(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			if n := len(res.GetRecords()); step.GetMaxRecords() > 0 && n > int(step.GetMaxRecords()) || step.GetMaxBytes() == 1 && n > 1 {
				t.Fatalf("%v: %d records at once", step, n)
			}
			for _, r := range res.GetRecords() {
				if r.GetOffset() != int64(len(got[r.GetPartition()])) {
					t.Fatalf("%v: partition %d: offset %d after %d records", step, r.GetPartition(), r.GetOffset(), len(got[r.GetPartition()]))
				}
				got[r.GetPartition()] = append(got[r.GetPartition()], r.GetText())
			}
			req.Cursor = res.GetNextCursor()
			if res.GetEndReached() {
				break
			}
			if i > 500 {
				t.Fatal("no end is reached")
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: %s", step, diff)
		}
	}
}

// A partition full of records does not starve the others.
func TestSmallAnswersServeEveryPartition(t *testing.T) {
	w := newWorld(t, 3)
	for p := range 3 {
		w.Append(t, p, slices.Repeat([]string{fmt.Sprint(p)}, 50)...)
	}
	seen := map[int32]bool{}
	req := &datav1.FetchRequest{Topic: "orders", MaxRecords: 2}
	for range 3 {
		res, err := w.services[0].Fetch(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		req.Cursor = res.GetNextCursor()
		for _, r := range res.GetRecords() {
			seen[r.GetPartition()] = true
		}
	}
	if len(seen) != 3 {
		t.Errorf("three answers had records of %v", seen)
	}
}

// Five records, appended at one to five seconds; the log starts at 1, the broker at 2, and a tierer has the part before 3.
func TestFetchStartsWhereFromSays(t *testing.T) {
	w := newWorld(t, 1)
	w.Append(t, 0, "0", "1", "2", "3", "4")
	w.Logs[0].Trim(1)
	w.Logs[0].Tier(2, 3)
	w.Tierers(t)
	for from, want := range map[string]string{
		"":                          "[1 2 3 4]",
		"earliest":                  "[1 2 3 4]",
		"latest":                    "[]",
		"3":                         "[3 4]",
		"5":                         "[]",
		"1970-01-01T00:00:04Z":      "[3 4]",
		"1970-01-01T01:00:01+01:00": "[1 2 3 4]",
		"1970-01-01T00:00:01.5Z":    "[1 2 3 4]",
		"2100-01-01T00:00:00Z":      "[]",
	} {
		req := &datav1.FetchRequest{Topic: "orders", From: from, Partition: proto.Int32(0)}
		got := []string{}
		for range 5 {
			res, err := w.services[0].Fetch(t.Context(), req)
			if err != nil {
				t.Fatalf("%q: %v", from, err)
			}
			got = append(got, texts(res.GetRecords())...)
			if req.Cursor = res.GetNextCursor(); res.GetEndReached() {
				break
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: %v, want %s", from, got, want)
		}
	}
}

// Invariant 6.
func TestLostDataIsAnErrorWithAWayOn(t *testing.T) {
	w := newWorld(t, 2)
	w.Append(t, 0, "0", "1", "2")
	w.Append(t, 1, "a", "b")
	first, err := w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", MaxRecords: 1})
	if err != nil {
		t.Fatal(err)
	}
	w.Logs[0].Trim(2)
	req := &datav1.FetchRequest{Topic: "orders", Cursor: first.GetNextCursor()}
	res, err := w.services[0].Fetch(t.Context(), req)
	if err != nil || fmt.Sprint(texts(res.GetRecords())) != "[a b]" || res.GetEndReached() {
		t.Fatalf("what is before it: %v, %v", res, err)
	}
	req.Cursor = res.GetNextCursor()
	_, err = w.services[0].Fetch(t.Context(), req)
	kind, info := details(err)
	if kind != fault.OffsetTrimmed || info["offset"] != "2" || info["partition"] != "0" || info["cursor"] == "" {
		t.Fatalf("trimmed: %v %v", err, info)
	}
	req.Cursor = info["cursor"]
	if res, err = w.services[1].Fetch(t.Context(), req); err != nil || fmt.Sprint(texts(res.GetRecords())) != "[2]" || !res.GetEndReached() {
		t.Errorf("behind it: %v, %v", res, err)
	}
}

func TestDamagedBatchCanBePassed(t *testing.T) {
	w := newWorld(t, 1)
	w.Append(t, 0, "0", "1", "2")
	w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
		if req.Message.Which() != wirecapnp.Request_Which_fetch {
			return false
		}
		in, _ := req.Message.Fetch()
		body := w.Body(0, in.Offset())
		if in.Offset() <= 1 {
			size, _ := batch.PeekSize(body)
			body[int(1-in.Offset())*size+size-1] ^= 1 // the last byte of batch 1
		}
		_ = req.Reply(func(res wirecapnp.Response) error {
			out, err := res.NewFetch()
			out.SetHighWatermark(3)
			out.SetNextOffset(3)
			return err
		}, frame.Bytes(body))
		return true
	})
	req := &datav1.FetchRequest{Topic: "orders"}
	res, err := w.services[0].Fetch(t.Context(), req)
	if err != nil || fmt.Sprint(texts(res.GetRecords())) != "[0]" {
		t.Fatalf("before it: %v, %v", res, err)
	}
	req.Cursor = res.GetNextCursor()
	_, err = w.services[0].Fetch(t.Context(), req)
	kind, info := details(err)
	if kind != fault.Corrupt || info["cursor"] == "" {
		t.Fatalf("damaged: %v %v", err, info)
	}
	req.Cursor = info["cursor"]
	if res, err = w.services[0].Fetch(t.Context(), req); err != nil || fmt.Sprint(texts(res.GetRecords())) != "[2]" {
		t.Errorf("behind it: %v, %v", res, err)
	}
}

func (w *world) appendControl(t *testing.T, index int) {
	t.Helper()
	msg, err := batch.BuildControl(nil, func(c batchcapnp.Control) error { _, err := c.NewTrimTo(); return err })
	if err != nil {
		t.Fatal(err)
	}
	h, err := batch.ParseHeader(msg)
	if err != nil {
		t.Fatal(err)
	}
	w.Logs[index].Append(msg, h, 1, 1)
}

// Control records take offsets and are passed; the end is reached behind a trailing one.
func TestControlRecordsArePassed(t *testing.T) {
	w := newWorld(t, 1)
	w.appendControl(t, 0)
	w.Append(t, 0, "1")
	w.appendControl(t, 0)
	res, err := w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders"})
	if err != nil || len(res.GetRecords()) != 1 || res.GetRecords()[0].GetOffset() != 1 || !res.GetEndReached() {
		t.Errorf("%v, %v", res, err)
	}
	for offset, want := range map[int64]fault.Kind{0: fault.NotFound, 2: fault.NotFound, 3: fault.OffsetOutOfRange, 4: fault.OffsetOutOfRange, -1: fault.Invalid} {
		if _, err := w.services[0].GetRecord(t.Context(), &datav1.GetRecordRequest{Topic: "orders", Offset: offset}); !fault.Is(err, want) {
			t.Errorf("record %d: %v, want %s", offset, err, want)
		}
	}
	one, err := w.services[0].GetRecord(t.Context(), &datav1.GetRecordRequest{Topic: "orders", Offset: 1})
	if err != nil || one.GetText() != "1" {
		t.Errorf("record 1: %v, %v", one, err)
	}
}

func TestFetchWaitsForTheFirstRecord(t *testing.T) {
	for _, partitions := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, partitions)
			go func() {
				time.Sleep(300 * time.Millisecond)
				w.Append(t, partitions-1, "late")
			}()
			started := time.Now()
			res, err := w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", WaitTime: millis(900)})
			if err != nil || fmt.Sprint(texts(res.GetRecords())) != "[late]" || time.Since(started) != 300*time.Millisecond {
				t.Errorf("%d partitions: %v, %v after %s", partitions, res, err, time.Since(started))
			}
			res, err = w.services[1].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", Cursor: res.GetNextCursor(), WaitTime: millis(900)})
			if err != nil || len(res.GetRecords()) != 0 || !res.GetEndReached() || time.Since(started) < 1200*time.Millisecond {
				t.Errorf("%d partitions: %v, %v after %s", partitions, res, err, time.Since(started))
			}
		})
	}
}

// A partition without a leader does not hide the others; alone it is an error.
func TestFetchPassesOverWhoDoesNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 2)
		w.Append(t, 0, "0")
		w.Append(t, 1, "a")
		at := w.services[0].sealer().Seal(cursor.Cursor{Topic: w.Topic.ID, Positions: []cursor.Position{{Partition: 0}, {Partition: 1}}})
		w.Views.Lead(w.ID(0), 9)
		res, err := w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", Cursor: at})
		if err != nil || fmt.Sprint(texts(res.GetRecords())) != "[a]" || res.GetEndReached() {
			t.Fatalf("%v, %v", res, err)
		}
		_, err = w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", Cursor: res.GetNextCursor()})
		if kind, info := details(err); kind != fault.Unavailable || info["partition"] != "0" {
			t.Errorf("alone: %v %v", err, info)
		}
		w.Lead(0, 2)
		res, err = w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", Cursor: res.GetNextCursor()})
		if err != nil || fmt.Sprint(texts(res.GetRecords())) != "[0]" || !res.GetEndReached() {
			t.Errorf("when it is back: %v, %v", res, err)
		}
	})
}

func TestBadFetches(t *testing.T) {
	w := newWorld(t, 2)
	other, _ := w.AddTopic("other", 1)
	sealer := w.services[0].sealer()
	seal := func(topic partition.UUID, index partition.Index) string {
		return sealer.Seal(cursor.Cursor{Topic: topic, Positions: []cursor.Position{{Partition: index}}})
	}
	w.AddTopic("wide", cursor.PositionsMax+1)
	for name, c := range map[string]struct {
		req  *datav1.FetchRequest
		want fault.Kind
	}{
		"negative records":       {&datav1.FetchRequest{Topic: "orders", MaxRecords: -1}, fault.Invalid},
		"too many records":       {&datav1.FetchRequest{Topic: "orders", MaxRecords: 10_001}, fault.Invalid},
		"negative bytes":         {&datav1.FetchRequest{Topic: "orders", MaxBytes: -1}, fault.Invalid},
		"too many bytes":         {&datav1.FetchRequest{Topic: "orders", MaxBytes: 9 << 20}, fault.Invalid},
		"negative wait":          {&datav1.FetchRequest{Topic: "orders", WaitTime: millis(-1)}, fault.Invalid},
		"long wait":              {&datav1.FetchRequest{Topic: "orders", WaitTime: durationpb.New(time.Hour)}, fault.Invalid},
		"unknown from":           {&datav1.FetchRequest{Topic: "orders", From: "yesterday"}, fault.Invalid},
		"offset of no partition": {&datav1.FetchRequest{Topic: "orders", From: "3"}, fault.Invalid},
		"negative offset":        {&datav1.FetchRequest{Topic: "orders", From: "-3", Partition: proto.Int32(0)}, fault.Invalid},
		"huge offset":            {&datav1.FetchRequest{Topic: "orders", From: "9223372036854775808", Partition: proto.Int32(0)}, fault.Invalid},
		"offset beyond the end":  {&datav1.FetchRequest{Topic: "orders", From: "1", Partition: proto.Int32(0)}, fault.OffsetOutOfRange},
		"unknown partition":      {&datav1.FetchRequest{Topic: "orders", Partition: proto.Int32(2)}, fault.Invalid},
		"negative partition":     {&datav1.FetchRequest{Topic: "orders", Partition: proto.Int32(-1)}, fault.Invalid},
		"unknown topic":          {&datav1.FetchRequest{Topic: "nope"}, fault.NotFound},
		"broken cursor":          {&datav1.FetchRequest{Topic: "orders", Cursor: "AAAA"}, fault.Invalid},
		"huge cursor":            {&datav1.FetchRequest{Topic: "orders", Cursor: strings.Repeat("A", 1<<20)}, fault.Invalid},
		"another topic's cursor": {&datav1.FetchRequest{Topic: "orders", Cursor: seal(other.ID, 0)}, fault.Conflict},
		"cursor of no partition": {&datav1.FetchRequest{Topic: "orders", Cursor: seal(w.Topic.ID, 2)}, fault.Invalid},
		"too many partitions":    {&datav1.FetchRequest{Topic: "wide"}, fault.Invalid},
	} {
		if _, err := w.services[0].Fetch(t.Context(), c.req); !func() bool { kind, _ := details(err); return err != nil && kind == c.want }() {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	w.Views.Change(func(v *topology.View) { delete(v.Topics, w.Topic.ID); delete(v.Names, w.Topic.FullName()) })
	if _, err := w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// A broker's answer may end early (where its segment does): a Fetch goes on until its limits.
func TestShortAnswersAreJoined(t *testing.T) {
	w := newWorld(t, 1)
	w.Append(t, 0, "0", "1", "2", "3", "4")
	w.Brokers[1].SetHook(func(_ context.Context, req *frame.Request) bool {
		if req.Message.Which() != wirecapnp.Request_Which_fetch {
			return false
		}
		in, _ := req.Message.Fetch()
		body, next := w.Body(0, in.Offset()), in.Offset()
		if size, err := batch.PeekSize(body); err == nil {
			body, next = body[:size], next+1
		}
		_ = req.Reply(func(res wirecapnp.Response) error {
			out, err := res.NewFetch()
			out.SetHighWatermark(5)
			out.SetNextOffset(next)
			return err
		}, frame.Bytes(body))
		return true
	})
	res, err := w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", MaxRecords: 4})
	if err != nil || fmt.Sprint(texts(res.GetRecords())) != "[0 1 2 3]" || res.GetEndReached() {
		t.Fatalf("limited: %v, %v", res, err)
	}
	res, err = w.services[0].Fetch(t.Context(), &datav1.FetchRequest{Topic: "orders", Cursor: res.GetNextCursor()})
	if err != nil || fmt.Sprint(texts(res.GetRecords())) != "[4]" || !res.GetEndReached() {
		t.Errorf("the rest: %v, %v", res, err)
	}
}
