package sq_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/sdk/go/sqtest"
)

func TestSendRoutes(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 8)
	p := c.Producer("orders")
	seen := make(map[int]bool)
	for i := range 64 {
		key := fmt.Appendf(nil, "key-%d", i)
		for range 2 {
			ack, err := p.Send(ctx, sq.Record{Key: key, Value: value(i)})
			if err != nil {
				t.Fatal(err)
			}
			if want := batch.PartitionOfHash(batch.KeyHash(key), 8); ack.Partition != want {
				t.Fatalf("key %s went to %d, its range is of %d", key, ack.Partition, want)
			}
		}
		ack, err := p.Send(ctx, sq.Record{Value: value(i)})
		if err != nil {
			t.Fatal(err)
		}
		seen[ack.Partition] = true
		if ack, err := p.Send(ctx, sq.Record{Key: key}, sq.ToPartition(3)); err != nil || ack.Partition != 3 {
			t.Fatalf("named partition: %+v, %v", ack, err)
		}
	}
	if len(seen) < 4 {
		t.Errorf("64 records without a key, each a batch, went to %d of 8 partitions", len(seen))
	}
	if _, err := p.Send(ctx, sq.Record{}, sq.ToPartition(8)); !errors.Is(err, sq.ErrTopicNotFound) {
		t.Errorf("a partition that does not exist: %v", err)
	}
}

func TestSendBatchKeepsOrderAndOffsets(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 3)
	p := c.Producer("orders", sq.BatchBytes(2000))
	records := make([]sq.Record, 500)
	for i := range records {
		records[i] = sq.Record{Key: []byte{byte(i % 17)}, Value: value(i)}
	}
	results, err := p.SendBatch(ctx, records)
	if err != nil {
		t.Fatal(err)
	}
	stored := server.Values("orders")
	last := make(map[int]int64)
	for i, r := range results {
		if got := stored[r.Partition][r.Offset]; got != string(value(i)) {
			t.Fatalf("record %d is acknowledged at %d/%d, where %q is", i, r.Partition, r.Offset, got)
		}
		if before, ok := last[r.Partition]; ok && r.Offset <= before {
			t.Fatalf("record %d is at %d, the one before at %d", i, r.Offset, before)
		}
		last[r.Partition] = r.Offset
	}
}

// A repeat after a lost connection stores nothing twice, and its ack tells the place of the first.
func TestRetriesAreDeduped(t *testing.T) {
	for _, c := range []struct {
		name      string
		fault     sqtest.Fault
		duplicate bool
	}{
		{"before", sqtest.DropBefore(), false},
		{"after", sqtest.DropAfter(), true},
		{"gateway lost its broker", sqtest.RefuseAfter(sq.KindOutcomeUnknown), true},
		{"server failed inside", sqtest.RefuseAfter(sq.KindInternal), true},
		{"overloaded", sqtest.Refuse(sq.KindOverloaded, time.Millisecond), false},
		{"not leader", sqtest.Refuse(sq.KindNotLeader, 0), false},
		{"not known yet", sqtest.Refuse(sq.KindNotFound, 0), false},
		{"stale routing without a newer map", sqtest.Refuse(sq.KindStaleRouting, 0), false},
		{"too late", sqtest.Refuse(sq.KindDeadlineExceeded, 0), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, server, client := setUp(t)
			p := client.Producer("orders")
			if _, err := p.Send(ctx, sq.Record{Key: []byte("k"), Value: value(0)}); err != nil {
				t.Fatal(err)
			}
			server.Inject(sqtest.Publish, c.fault, 2)
			ack, err := p.Send(ctx, sq.Record{Key: []byte("k"), Value: value(1)})
			if err != nil || ack.Offset != 1 || ack.Duplicate != c.duplicate {
				t.Fatalf("ack %+v, %v", ack, err)
			}
			if diff := cmp.Diff([][]string{{"value-0", "value-1"}}, server.Values("orders")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The third answer: nobody can say, and the error says so. Where every attempt was refused it says that nothing is stored.
func TestEndOfContext(t *testing.T) {
	for _, c := range []struct {
		name   string
		fault  sqtest.Fault
		stored int
		want   error
	}{
		{"no answer after it was stored", sqtest.DropAfter(), 1, sq.ErrOutcomeUnknown},
		{"no answer before it was stored", sqtest.DropBefore(), 0, sq.ErrOutcomeUnknown},
		{"no answer at all", sqtest.Hang(), 0, sq.ErrOutcomeUnknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, server, client := setUp(t)
			p := client.Producer("orders")
			server.CreateTopic("orders", 1)
			server.Inject(sqtest.Publish, c.fault, -1)
			short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			_, err := p.Send(short, sq.Record{Value: value(1)})
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if n := len(server.Values("orders")[0]); n != c.stored {
				t.Errorf("%d records are stored", n)
			}
		})
	}
}

// A context whose end comes while the client waits behind a refusal: the record is certainly not stored, and the error says why.
func TestEndOfContextBehindRefusal(t *testing.T) {
	for _, c := range []struct {
		kind      sq.Kind
		want, not error
	}{
		{sq.KindOverloaded, context.DeadlineExceeded, sq.ErrOutcomeUnknown},
		{sq.KindOverloaded, sq.ErrOverloaded, sq.ErrDiskFull},
		{sq.KindDiskFull, sq.ErrDiskFull, sq.ErrOverloaded},
	} {
		t.Run(fmt.Sprintf("%v gives %v", c.kind, c.want), func(t *testing.T) {
			refused := refusals{slog.DiscardHandler, make(chan struct{}, 1)}
			ctx, server, client := setUp(t, sq.Log(slog.New(refused)))
			server.CreateTopic("orders", 1)
			server.Inject(sqtest.Publish, sqtest.Refuse(c.kind, time.Hour), -1) // no second attempt before the end
			ending := deadline{ctx, make(chan struct{})}
			go func() {
				<-refused.seen
				close(ending.over)
			}()
			_, err := client.Producer("orders").Send(ending, sq.Record{Value: value(1)})
			if !errors.Is(err, c.want) || errors.Is(err, c.not) || errors.Is(err, sq.ErrOutcomeUnknown) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if n := len(server.Values("orders")[0]); n != 0 {
				t.Errorf("%d records are stored", n)
			}
		})
	}
}

// deadline is a context whose deadline passes when over is closed.
type deadline struct {
	context.Context

	over chan struct{}
}

func (d deadline) Done() <-chan struct{} { return d.over }
func (d deadline) Err() error {
	select {
	case <-d.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// refusals signals each attempt that the client logs as refused.
type refusals struct {
	slog.Handler

	seen chan struct{}
}

func (r refusals) Enabled(context.Context, slog.Level) bool { return true }
func (r refusals) Handle(context.Context, slog.Record) error {
	select {
	case r.seen <- struct{}{}:
	default:
	}
	return nil
}

// A record whose caller went away while it was refused is never sent later, alone or in company.
func TestGivenUpIsNotSent(t *testing.T) {
	refused := refusals{slog.DiscardHandler, make(chan struct{}, 1)}
	ctx, server, c := setUp(t, sq.Log(slog.New(refused)))
	server.CreateTopic("orders", 1)
	p := c.Producer("orders", sq.Linger(time.Minute))
	server.Inject(sqtest.Publish, sqtest.Refuse(sq.KindOverloaded, 100*time.Millisecond), 1)
	short, cancel := context.WithCancel(ctx)
	p.Go(sq.Record{Value: []byte("company")}, nil) // waits for the Send, and shares its batch
	go func() {
		<-refused.seen
		cancel()
	}()
	_, err := p.Send(short, sq.Record{Value: []byte("given up")})
	if !errors.Is(err, context.Canceled) || errors.Is(err, sq.ErrOutcomeUnknown) {
		t.Fatalf("refused until the end: %v", err)
	}
	if _, err := p.Send(ctx, sq.Record{Value: value(1)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"company", "value-1"}}, server.Values("orders")); diff != "" {
		t.Error(diff)
	}

	server.Inject(sqtest.Publish, sqtest.Refuse(sq.KindOverloaded, 100*time.Millisecond), 1)
	short, cancel = context.WithCancel(ctx)
	go func() {
		<-refused.seen
		cancel()
	}()
	if _, err := p.Send(short, sq.Record{Value: []byte("given up alone")}); errors.Is(err, sq.ErrOutcomeUnknown) || err == nil {
		t.Fatalf("refused until the end: %v", err)
	}
	if _, err := p.Send(ctx, sq.Record{Value: value(2)}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([][]string{{"company", "value-1", "value-2"}}, server.Values("orders")); diff != "" {
		t.Error(diff)
	}
}

// A definite failure in the middle leaves no gap: what was behind it is stored in a new session.
func TestDefiniteFailureLeavesNoGap(t *testing.T) {
	ctx, server, c := setUp(t)
	p := c.Producer("orders", sq.BatchBytes(1000), sq.Linger(0))
	if _, err := p.Send(ctx, sq.Record{Value: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	server.InjectAfter(sqtest.Publish, 1, sqtest.Refuse(sq.KindDenied, 0), 1)
	var failed, stored atomic.Int32
	var want []string
	var mu sync.Mutex
	for i := range 200 {
		p.Go(sq.Record{Value: value(i)}, func(_ sq.Ack, err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				want = append(want, string(value(i)))
				stored.Add(1)
			case errors.Is(err, sq.ErrDenied):
				failed.Add(1)
			default:
				t.Errorf("record %d: %v", i, err)
			}
		})
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if failed.Load() == 0 || stored.Load() == 0 || failed.Load()+stored.Load() != 200 {
		t.Fatalf("%d failed, %d stored", failed.Load(), stored.Load())
	}
	if diff := cmp.Diff(append([]string{"first"}, want...), server.Values("orders")[0]); diff != "" {
		t.Errorf("stored in another order than acknowledged: %s", diff)
	}
	if n := server.Calls(sqtest.InitProducer); n != 2 {
		t.Errorf("%d sessions were begun, not 2", n)
	}
}

func TestRepartitionReroutes(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	p := c.Producer("orders")
	if _, err := p.Send(ctx, sq.Record{Key: []byte("k"), Value: value(0)}); err != nil {
		t.Fatal(err)
	}
	server.Repartition("orders", 4)
	records := make([]sq.Record, 100)
	for i := range records {
		records[i] = sq.Record{Key: fmt.Appendf(nil, "key-%d", i), Value: value(i)}
	}
	results, err := p.SendBatch(ctx, records)
	if err != nil {
		t.Fatal(err)
	}
	stored := server.Values("orders")
	for i, r := range results {
		if want := batch.PartitionOfHash(batch.KeyHash(records[i].Key), 4); r.Partition != want {
			t.Errorf("record %d went to %d, its range is of %d now", i, r.Partition, want)
		}
		if stored[r.Partition][r.Offset] != string(value(i)) {
			t.Errorf("record %d is not at %d/%d", i, r.Partition, r.Offset)
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

// What may be stored where it was is not sent to where it belongs now.
func TestRepartitionLosesWhatIsUnknown(t *testing.T) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	p := c.Producer("orders")
	if _, err := p.Send(ctx, sq.Record{Key: []byte("k"), Value: value(0)}); err != nil {
		t.Fatal(err)
	}
	server.Repartition("orders", 4)
	server.Inject(sqtest.Publish, sqtest.DropBefore(), 1)
	if _, err := p.Send(ctx, sq.Record{Key: []byte("k"), Value: value(1)}); !errors.Is(err, sq.ErrOutcomeUnknown) {
		t.Errorf("routed by the old map, once without an answer: %v", err)
	}
	if ack, err := p.Send(ctx, sq.Record{Key: []byte("k"), Value: value(2)}); err != nil || ack.Partition != batch.PartitionOfHash(batch.KeyHash([]byte("k")), 4) {
		t.Errorf("%+v, %v", ack, err)
	}
	for _, values := range server.Values("orders") {
		if slices.Contains(values, "value-1") {
			t.Error("it was sent again")
		}
	}
}

func TestTopicsThatAreNotThere(t *testing.T) {
	ctx, server, c := setUp(t)
	server.AutoCreate(0)
	p := c.Producer("missing")
	if _, err := p.Send(ctx, sq.Record{}); !errors.Is(err, sq.ErrTopicNotFound) || sq.KindOf(err) != sq.KindNotFound {
		t.Errorf("send: %v", err)
	}
	for name, bad := range map[string]error{"": sq.ErrInvalid, "a/b/c": sq.ErrInvalid, "/x": sq.ErrInvalid} {
		if _, err := c.Producer(name).Send(ctx, sq.Record{}); !errors.Is(err, bad) {
			t.Errorf("topic %q: %v", name, err)
		}
	}
	// Deleted under a producer: what is sent fails; made anew, it goes on there.
	server.CreateTopic("orders", 1)
	p = c.Producer("orders")
	if _, err := p.Send(ctx, sq.Record{Value: value(0)}); err != nil {
		t.Fatal(err)
	}
	server.DeleteTopic("orders")
	if _, err := p.Send(ctx, sq.Record{Value: value(1)}); !errors.Is(err, sq.ErrTopicNotFound) {
		t.Errorf("deleted: %v", err)
	}
	server.CreateTopic("orders", 2)
	if _, err := p.Send(ctx, sq.Record{Value: value(2)}, sq.ToPartition(1)); err != nil {
		t.Errorf("made anew: %v", err)
	}
	if diff := cmp.Diff([][]string{nil, {"value-2"}}, server.Values("orders")); diff != "" {
		t.Error(diff)
	}
}

func TestTooLarge(t *testing.T) {
	ctx, server, c := setUp(t)
	server.BatchBytesMax(64 << 10)
	p := c.Producer("orders")
	for name, r := range map[string]sq.Record{
		"value":  {Value: make([]byte, 64<<10)},
		"key":    {Key: make([]byte, batch.MaxKeyBytes+1)},
		"budget": {Value: make([]byte, 2*sq.DefaultBudget)},
	} {
		if _, err := p.Send(ctx, r); !errors.Is(err, sq.ErrTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := p.Send(ctx, sq.Record{Value: make([]byte, 60<<10)}); err != nil {
		t.Errorf("just below: %v", err)
	}
	// The rest of a batch is stored.
	results, err := p.SendBatch(ctx, []sq.Record{{Value: value(1)}, {Value: make([]byte, 70<<10)}, {Value: value(2)}})
	if !errors.Is(err, sq.ErrTooLarge) || results[0].Err != nil || results[1].Err == nil || results[2].Err != nil {
		t.Errorf("batch: %+v, %v", results, err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	ctx, _, c := setUp(t)
	for name, option := range map[string]sq.ProducerOption{
		"linger": sq.Linger(-1), "long linger": sq.Linger(time.Hour), "buffer": sq.MaxBuffered(0), "batch": sq.BatchBytes(batch.MaxBytes + 1),
		"codec": sq.Compression(9), "delivery": sq.DeliveryTimeout(-1),
	} {
		if _, err := c.Producer("orders", option).Send(ctx, sq.Record{}); !errors.Is(err, sq.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProducerCloses(t *testing.T) {
	ctx, server, c := setUp(t)
	p := c.Producer("orders", sq.Linger(time.Minute))
	var got []error
	p.Go(sq.Record{Value: value(1)}, func(_ sq.Ack, err error) { got = append(got, err) })
	if err := p.Close(ctx); err != nil || len(got) != 1 || got[0] != nil {
		t.Fatalf("close flushes: %v, %v", err, got)
	}
	if _, err := p.Send(ctx, sq.Record{}); !errors.Is(err, sq.ErrClosed) {
		t.Errorf("send after close: %v", err)
	}
	p.Go(sq.Record{}, func(_ sq.Ack, err error) {
		if !errors.Is(err, sq.ErrClosed) {
			t.Errorf("go after close: %v", err)
		}
	})
	// What has no answer when the time for Close is over fails: unknown, since it was sent.
	p = c.Producer("orders", sq.Linger(0))
	server.Inject(sqtest.Publish, sqtest.Hang(), -1)
	answers := make(chan error, 1)
	p.Go(sq.Record{Value: value(2)}, func(_ sq.Ack, err error) { answers <- err })
	for server.Calls(sqtest.Publish) < 2 {
		time.Sleep(time.Millisecond)
	}
	short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if err := p.Close(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close: %v", err)
	}
	if err := <-answers; !errors.Is(err, sq.ErrOutcomeUnknown) {
		t.Errorf("the record in flight: %v", err)
	}
	// A record that nobody could send is certainly not stored.
	p = c.Producer("orders", sq.Linger(time.Minute))
	p.Go(sq.Record{Value: value(3)}, func(_ sq.Ack, err error) { answers <- err })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-answers; !errors.Is(err, sq.ErrClosed) || errors.Is(err, sq.ErrOutcomeUnknown) {
		t.Errorf("the record that waited: %v", err)
	}
	if n := sq.BufferedBytes(c); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

func TestDeliveryTimeout(t *testing.T) {
	_, server, c := setUp(t)
	server.CreateTopic("orders", 1)
	server.Inject(sqtest.Publish, sqtest.Refuse(sq.KindUnavailable, 0), -1)
	p := c.Producer("orders", sq.DeliveryTimeout(50*time.Millisecond), sq.Linger(0))
	answers := make(chan error, 1)
	p.Go(sq.Record{}, func(_ sq.Ack, err error) { answers <- err })
	if err := <-answers; sq.KindOf(err) != sq.KindDeadlineExceeded || !errors.Is(err, sq.ErrUnavailable) {
		t.Errorf("refused until the end: %v", err)
	}
}

func TestAckNone(t *testing.T) {
	ctx, server, c := setUp(t)
	ack, err := c.Producer("orders", sq.AckNone()).Send(ctx, sq.Record{Value: value(1)})
	if err != nil || ack.Offset != -1 || ack.Durability != sq.DurabilityNone {
		t.Errorf("ack %+v, %v", ack, err)
	}
	if n := len(server.Values("orders")[0]); n != 1 {
		t.Errorf("%d records", n)
	}
}

// A full buffer makes Go wait, and everything taken is given back.
func TestBufferIsBounded(t *testing.T) {
	ctx, server, c := setUp(t)
	p := c.Producer("orders", sq.MaxBuffered(20_000), sq.Linger(time.Minute), sq.BatchBytes(4000))
	most := 0
	for i := range 2000 {
		p.Go(sq.Record{Value: make([]byte, 100)}, nil)
		most = max(most, sq.BufferedBytes(c))
		if i%100 == 0 {
			server.DropConnections()
		}
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if n := len(server.Values("orders")[0]); n != 2000 {
		t.Errorf("%d of 2000 records are stored", n)
	}
	if most > 20_000 || most < 10_000 || sq.BufferedBytes(c) != 0 {
		t.Errorf("at most %d bytes were buffered, %d are still", most, sq.BufferedBytes(c))
	}
}

// Whatever goes wrong, what the producer says is what the log has: acknowledged = once, at that offset; failed = never; unknown = at most once.
func TestStorm(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { storm(t, seed) })
	}
}

func storm(t *testing.T, seed uint64) {
	ctx, server, c := setUp(t)
	server.CreateTopic("orders", 3)
	rng := rand.New(rand.NewPCG(seed, 7))
	for range 60 {
		faults := []sqtest.Fault{
			sqtest.DropBefore(), sqtest.DropAfter(), sqtest.Refuse(sq.KindOverloaded, 0), sqtest.Refuse(sq.KindNotLeader, 0),
			sqtest.RefuseAfter(sq.KindOutcomeUnknown), sqtest.Refuse(sq.KindDenied, 0), sqtest.Refuse(sq.KindOutOfOrder, 0),
		}
		server.InjectAfter(sqtest.Publish, rng.IntN(4), faults[rng.IntN(len(faults))], 1+rng.IntN(2))
	}
	type told struct {
		ack sq.Ack
		err error
	}
	var mu sync.Mutex
	answers := make(map[string]told)
	note := func(value string, ack sq.Ack, err error) {
		mu.Lock()
		defer mu.Unlock()
		if _, twice := answers[value]; twice {
			t.Errorf("%s was answered twice", value)
		}
		answers[value] = told{ack, err}
	}
	p := c.Producer("orders", sq.BatchBytes(1500), sq.Linger(time.Millisecond), sq.Compression(sq.S2))
	var senders sync.WaitGroup
	for s := range 4 {
		senders.Go(func() {
			for i := range 150 {
				v := fmt.Sprintf("%d-%d", s, i)
				r := sq.Record{Key: []byte{byte(i % 11)}, Value: []byte(v)}
				if s%2 == 0 {
					p.Go(r, func(ack sq.Ack, err error) { note(v, ack, err) })
					continue
				}
				ctx, cancel := context.WithTimeout(ctx, time.Duration(1+i%40)*time.Millisecond)
				ack, err := p.Send(ctx, r)
				cancel()
				note(v, ack, err)
			}
		})
	}
	senders.Wait()
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	stored := server.Values("orders")
	times := make(map[string]int)
	for _, values := range stored {
		for _, v := range values {
			times[v]++
		}
	}
	outcomes := make(map[string]int)
	for v, a := range answers {
		switch {
		case a.err == nil:
			outcomes["stored"]++
			if times[v] != 1 || a.ack.Offset >= 0 && stored[a.ack.Partition][a.ack.Offset] != v {
				t.Errorf("%s is acknowledged at %d/%d and stored %d times", v, a.ack.Partition, a.ack.Offset, times[v])
			}
		case errors.Is(a.err, sq.ErrOutcomeUnknown):
			outcomes["unknown"]++
			if times[v] > 1 {
				t.Errorf("%s is unknown and stored %d times", v, times[v])
			}
		default:
			outcomes["failed"]++
			if times[v] != 0 {
				t.Errorf("%s failed (%v) and is stored %d times", v, a.err, times[v])
			}
		}
	}
	if len(answers) != 600 || outcomes["stored"] == 0 {
		t.Errorf("%d answers: %v", len(answers), outcomes)
	}
	checkOrder(t, stored, func(v string) bool { return answers[v].err == nil })
	if n := sq.BufferedBytes(c); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
	t.Log(outcomes)
}

// checkOrder wants what one sender was acknowledged for in its order, partition by partition.
func checkOrder(t *testing.T, stored [][]string, acknowledged func(string) bool) {
	t.Helper()
	for partition, values := range stored {
		last := make(map[int][]int)
		for _, v := range values {
			var s, i int
			if _, err := fmt.Sscanf(v, "%d-%d", &s, &i); err != nil {
				t.Fatal(err)
			}
			if acknowledged(v) {
				last[s] = append(last[s], i)
			}
		}
		for s, order := range last {
			if !slices.IsSorted(order) {
				t.Errorf("partition %d: sender %d: %v", partition, s, order)
			}
		}
	}
}
