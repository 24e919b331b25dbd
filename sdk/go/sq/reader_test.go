package sq_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

// fill publishes n records to a partition, in batches of the given size.
func fill(ctx context.Context, t *testing.T, c *sq.Client, topic string, partition, n, size int, options ...sq.ProducerOption) {
	t.Helper()
	p := c.Producer(topic, options...)
	for from := 0; from < n; from += size {
		var records []sq.Record
		for i := from; i < min(from+size, n); i++ {
			records = append(records, sq.Record{Value: value(i)})
		}
		if _, err := p.SendBatch(ctx, records, sq.ToPartition(partition)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// values gives value-from … value-(to-1).
func values(from, to int) []string {
	var out []string
	for i := from; i < to; i++ {
		out = append(out, string(value(i)))
	}
	return out
}

func TestReadPositions(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	fill(ctx, t, c, "orders", 0, 50, 10)
	time.Sleep(2 * time.Millisecond) // append times have to differ, not to be in time
	middle := time.Now()
	time.Sleep(2 * time.Millisecond)
	p := c.Producer("orders")
	for i := 50; i < 100; i++ {
		if _, err := p.Send(ctx, sq.Record{Value: value(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name     string
		options  []sq.ReadOption
		from, to int
	}{
		{"all", nil, 0, 100},
		{"earliest", []sq.ReadOption{sq.From(sq.Earliest)}, 0, 100},
		{"offset inside a batch", []sq.ReadOption{sq.From(sq.Offset(37))}, 37, 100},
		{"offset at the end", []sq.ReadOption{sq.From(sq.Offset(100))}, 0, 0},
		{"latest", []sq.ReadOption{sq.From(sq.Latest)}, 0, 0},
		{"until offset inside a batch", []sq.ReadOption{sq.Until(sq.Offset(33))}, 0, 33},
		{"a range", []sq.ReadOption{sq.From(sq.Offset(11)), sq.Until(sq.Offset(12))}, 11, 12},
		{"nothing", []sq.ReadOption{sq.From(sq.Offset(12)), sq.Until(sq.Offset(12))}, 0, 0},
		{"from time", []sq.ReadOption{sq.From(sq.Time(middle))}, 50, 100},
		{"until time", []sq.ReadOption{sq.Until(sq.Time(middle))}, 0, 50},
		{"before all time", []sq.ReadOption{sq.Until(sq.Time(time.Unix(0, 0)))}, 0, 0},
		{"until now", []sq.ReadOption{sq.From(sq.Offset(20)), sq.Until(sq.Time(time.Now()))}, 20, 100},
		{"little ahead", []sq.ReadOption{sq.MaxBytes(1)}, 0, 100},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(values(test.from, test.to), readAll(ctx, t, c, "orders", test.options...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A log that ends in control batches has an end all the same, and offsets are not dense.
func TestControlBatchesAreSkipped(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	server.AppendControl("orders", 0)
	fill(ctx, t, c, "orders", 0, 2, 1)
	server.AppendControl("orders", 0)
	server.AppendControl("orders", 0)
	var offsets []int64
	for r, err := range c.Read(ctx, "orders", sq.Until(sq.End)) {
		if err != nil {
			t.Fatal(err)
		}
		offsets = append(offsets, r.Offset)
	}
	if diff := cmp.Diff([]int64{1, 2}, offsets); diff != "" {
		t.Error(diff)
	}
	info, err := c.ListOffsets(ctx, "orders", 0, sq.Latest)
	if err != nil || info.Offset != 5 || info.HighWatermark != 5 || info.LogStart != 0 {
		t.Errorf("list offsets: %+v, %v", info, err)
	}
}

func TestReadPartitions(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 5)
	for p := range 5 {
		fill(ctx, t, c, "orders", p, 20, 3)
	}
	next := make(map[int]int64)
	for r, err := range c.Read(ctx, "orders", sq.Partitions(1, 4), sq.Until(sq.End)) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Offset != next[r.Partition] || string(r.Value) != string(value(int(r.Offset))) {
			t.Fatalf("%d/%d: %q, expected offset %d", r.Partition, r.Offset, r.Value, next[r.Partition])
		}
		next[r.Partition]++
	}
	if diff := cmp.Diff(map[int]int64{1: 20, 4: 20}, next); diff != "" {
		t.Error(diff)
	}
	for name, options := range map[string][]sq.ReadOption{
		"offset without a partition": {sq.From(sq.Offset(1))},
		"until offset":               {sq.Until(sq.Offset(1))},
		"negative":                   {sq.From(sq.Offset(-1)), sq.Partitions(0)},
		"twice":                      {sq.Partitions(1, 1)},
		"no bytes":                   {sq.MaxBytes(0)},
	} {
		if err := readError(c.Read(ctx, "orders", options...)); !errors.Is(err, sq.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := readError(c.Read(ctx, "orders", sq.Partitions(5))); !errors.Is(err, sq.ErrTopicNotFound) {
		t.Errorf("partition 5: %v", err)
	}
}

// readError gives the first error of a loop.
func readError(loop func(func(*sq.Record, error) bool)) error {
	for _, err := range loop {
		if err != nil {
			return err
		}
	}
	return nil
}

// A reader at the end gets what comes.
func TestFollow(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 3)
	p := c.Producer("orders")
	got := make(chan string)
	stop, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		ended <- readError(func(yield func(*sq.Record, error) bool) {
			c.Read(stop, "orders")(func(r *sq.Record, err error) bool {
				if err == nil {
					got <- string(r.Value)
				}
				return yield(r, err)
			})
		})
	}()
	for i := range 30 {
		if i == 15 {
			server.DropConnections()
		}
		if _, err := p.Send(ctx, sq.Record{Value: value(i)}); err != nil {
			t.Fatal(err)
		}
		if v := <-got; v != string(value(i)) {
			t.Fatalf("got %s", v)
		}
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the loop ended with %v", err)
	}
	// The end of the client is an end, too.
	go func() { ended <- readError(c.Read(ctx, "orders", sq.From(sq.Latest))) }()
	for server.Calls(sqtest.Fetch) < 6 {
		time.Sleep(time.Millisecond)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, sq.ErrClosed) {
		t.Errorf("the loop ended with %v", err)
	}
}

func TestTrimmed(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	fill(ctx, t, c, "orders", 0, 30, 5)
	server.Trim("orders", 0, 12)
	if diff := cmp.Diff(values(12, 30), readAll(ctx, t, c, "orders")); diff != "" {
		t.Errorf("earliest: %s", diff)
	}
	var got []string
	var trimmed *sq.TrimmedError
	for r, err := range c.Read(ctx, "orders", sq.From(sq.Offset(3)), sq.Until(sq.End)) {
		if err == nil {
			got = append(got, string(r.Value))
			continue
		}
		if trimmed != nil || !errors.As(err, &trimmed) || !errors.Is(err, sq.ErrTrimmed) {
			t.Fatal(err)
		}
	}
	if trimmed == nil || trimmed.Start != 12 || trimmed.Offset != 3 {
		t.Errorf("trimmed: %v", trimmed)
	}
	if diff := cmp.Diff(values(12, 30), got); diff != "" {
		t.Errorf("behind the error: %s", diff)
	}
	err := readError(c.Read(ctx, "orders", sq.From(sq.Offset(31))))
	if !errors.Is(err, sq.ErrOffsetOutOfRange) {
		t.Errorf("beyond the end: %v", err)
	}
}

func TestCorruptBatchIsSkippable(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	fill(ctx, t, c, "orders", 0, 30, 5)
	server.Corrupt("orders", 0, 12)
	var got []string
	var bad *sq.CorruptError
	for r, err := range c.Read(ctx, "orders", sq.Until(sq.End)) {
		if err == nil {
			got = append(got, string(r.Value))
		} else if bad != nil || !errors.As(err, &bad) || !errors.Is(err, sq.ErrCorrupt) {
			t.Fatal(err)
		}
	}
	if bad == nil || bad.Offset != 10 || bad.Next != 15 {
		t.Errorf("error: %v", bad)
	}
	if diff := cmp.Diff(append(values(0, 10), values(15, 30)...), got); diff != "" {
		t.Error(diff)
	}
	if err := readError(c.Read(ctx, "orders", sq.Until(sq.End))); !errors.Is(err, sq.ErrCorrupt) {
		t.Errorf("a loop that ends at the error: %v", err)
	}
}

// What a server says once is no reason to stop; what it says for good is.
func TestReadRetries(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	fill(ctx, t, c, "orders", 0, 30, 5)
	for name, fault := range map[string]sqtest.Fault{
		"drop": sqtest.DropBefore(), "drop after": sqtest.DropAfter(), "overloaded": sqtest.Refuse(sq.KindOverloaded, time.Millisecond),
		"not leader": sqtest.Refuse(sq.KindNotLeader, 0), "internal": sqtest.Refuse(sq.KindInternal, 0), "not known yet": sqtest.Refuse(sq.KindNotFound, 0),
	} {
		for _, call := range []sqtest.Call{sqtest.Fetch, sqtest.ListOffsets, sqtest.Metadata} {
			if call != sqtest.Fetch && name == "not known yet" {
				continue
			}
			server.Inject(call, fault, 2)
			if diff := cmp.Diff(values(0, 30), readAll(ctx, t, c, "orders")); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
	// A new leader may not know yet how far the log was committed: a position that was right stays right.
	server.InjectAfter(sqtest.Fetch, 1, sqtest.Refuse(sq.KindOffsetOutOfRange, 0), 2)
	if diff := cmp.Diff(values(0, 30), readAll(ctx, t, c, "orders", sq.MaxBytes(100))); diff != "" {
		t.Errorf("out of range for a moment: %s", diff)
	}
	for kind, want := range map[sq.Kind]error{sq.KindDenied: sq.ErrDenied, sq.KindUnauthenticated: sq.ErrUnauthenticated, sq.KindInvalid: sq.ErrInvalid} {
		server.Inject(sqtest.Fetch, sqtest.Refuse(kind, 0), 1)
		if err := readError(c.Read(ctx, "orders")); !errors.Is(err, want) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	server.AutoCreate(0)
	server.DeleteTopic("orders")
	if err := readError(c.Read(ctx, "orders")); !errors.Is(err, sq.ErrTopicNotFound) {
		t.Errorf("no topic: %v", err)
	}
}

// A topic made anew under a reader is another topic: nothing of it is given for the old one's.
func TestTopicMadeAnew(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	fill(ctx, t, c, "orders", 0, 5, 5)
	n := 0
	var last error
	for _, err := range c.Read(ctx, "orders") {
		if err != nil {
			last = err
			break
		}
		if n++; n == 5 {
			server.DeleteTopic("orders")
			server.CreateTopic("orders", 1)
			server.DropConnections()
		}
	}
	if !errors.Is(last, sq.ErrTopicNotFound) {
		t.Errorf("the loop ended with %v", last)
	}
}

// Records may be kept, whatever the codec; those of a reusing loop may not, and cost nothing.
func TestRecordsOutliveTheLoop(t *testing.T) {
	for codec := sq.None; codec <= sq.Zstd; codec++ {
		t.Run(codec.String(), func(t *testing.T) {
			ctx, server, c := setUp(t)
			server.CreateTopic("orders", 1)
			p := c.Producer("orders", sq.Compression(codec))
			at := time.Date(2026, 11, 30, 12, 0, 0, 1000, time.UTC)
			want := make([]sq.Record, 300)
			for i := range want {
				want[i] = sq.Record{Key: fmt.Appendf(nil, "key-%d", i), Value: value(i), Timestamp: at, Headers: []sq.Header{{Key: "n", Value: value(i)}, {Key: "null"}}}
			}
			want[7].Key, want[8].Value, want[9].Value = nil, nil, []byte{}
			for chunk := range slices.Chunk(want, 50) {
				if _, err := p.SendBatch(ctx, chunk, sq.ToPartition(0)); err != nil {
					t.Fatal(err)
				}
			}
			var kept []*sq.Record
			// In many answers, so that the memory of an answer is used again while its records are kept.
			for r, err := range c.Read(ctx, "orders", sq.Until(sq.End), sq.MaxBytes(1000)) {
				if err != nil {
					t.Fatal(err)
				}
				kept = append(kept, r)
			}
			if len(kept) != len(want) {
				t.Fatalf("%d records", len(kept))
			}
			for i, r := range kept {
				got := sq.Record{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: r.Timestamp}
				if diff := cmp.Diff(want[i], got, cmp.AllowUnexported(sq.Record{})); diff != "" {
					t.Fatalf("record %d: %s", i, diff)
				}
				if r.Offset != int64(i) || r.AppendTime().IsZero() {
					t.Fatalf("record %d: offset %d, appended %s", i, r.Offset, r.AppendTime())
				}
			}
			same := make(map[*sq.Record]bool)
			i := 0
			for r, err := range c.Read(ctx, "orders", sq.Until(sq.End), sq.ReuseRecords()) {
				if err != nil || string(r.Value) != string(want[i].Value) {
					t.Fatalf("record %d: %q, %v", i, r.Value, err)
				}
				same[r] = true
				i++
			}
			if len(same) != 1 || i != len(want) {
				t.Errorf("%d records in %d places", i, len(same))
			}
		})
	}
}

// A loop that is left gives everything back, and loops within loops do not wait for each other.
func TestLoopsEnd(t *testing.T) {
	ctx, server, c := setUp(t, sq.Budget(sq.MinBudget))
	server.CreateTopic("orders", 4)
	server.CreateTopic("others", 4)
	large := sq.Record{Value: make([]byte, 500_000)}
	for _, topic := range []string{"orders", "others"} {
		p := c.Producer(topic)
		for i := range 32 {
			if _, err := p.SendBatch(ctx, []sq.Record{large, large}, sq.ToPartition(i%4)); err != nil {
				t.Fatal(err)
			}
		}
	}
	p := c.Producer("copies")
	rounds := 0
	for r, err := range c.Read(ctx, "orders", sq.Until(sq.End)) {
		if err != nil {
			t.Fatal(err)
		}
		if rounds++; rounds > 6 {
			break
		}
		for _, err := range c.Read(ctx, "others", sq.Until(sq.End)) {
			if err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Send(ctx, sq.Record{Value: r.Value}); err != nil {
			t.Fatal(err)
		}
	}
	if n := sq.BufferedBytes(c); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

func TestReadBatches(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	fill(ctx, t, c, "orders", 0, 30, 10)
	server.AppendControl("orders", 0)
	type seen struct {
		Offset, Next int64
		Len          int
	}
	var got []seen
	for b, err := range c.ReadBatches(ctx, "orders", sq.From(sq.Offset(5)), sq.Until(sq.Offset(28))) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, seen{b.Offset, b.Next, b.Len()})
		var r sq.Record
		b.Record(0, &r)
		if r.Offset != b.Offset || string(r.Value) != string(value(int(b.Offset))) || b.HighWatermark != 31 {
			t.Errorf("%+v: first record at %d: %q", b, r.Offset, r.Value)
		}
	}
	if diff := cmp.Diff([]seen{{5, 10, 5}, {10, 20, 10}, {20, 28, 8}}, got); diff != "" {
		t.Error(diff)
	}
}
