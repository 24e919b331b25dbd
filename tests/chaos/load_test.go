package chaos

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seedqueue/sq/sdk/go/sq"
	"github.com/seedqueue/sq/tests/chaos/history"
	"github.com/seedqueue/sq/tests/cluster"
)

const (
	partitions = 3
	// patience is far above what any fault of the tests takes.
	patience = 60 * time.Second
	// window is how many records an asynchronous session has on their way.
	window = 64
)

// load is clients at work on one topic.
type load struct {
	t       *testing.T
	topic   string
	history *history.History
	client  *sq.Client
	seed    uint64

	stop      chan struct{} // closed: sessions end
	sessions  sync.WaitGroup
	unfollow  context.CancelFunc
	followers sync.WaitGroup
	followed  []*history.Reading
	acks      atomic.Int64
	impatient bool // some calls are given up early
}

// newLoad makes a topic and puts sessions and followers to work on it.
func newLoad(t *testing.T, c *cluster.Cluster, topic string, seed uint64, flags ...string) *load {
	t.Helper()
	c.MustSQ(t, append([]string{"topic", "create", topic, "--partitions", strconv.Itoa(partitions)}, flags...)...)
	client, err := sq.Open(t.Context(), c.DataAddr)
	if err != nil {
		t.Fatal(err)
	}
	l := &load{t: t, topic: topic, history: history.New(), client: client, seed: seed, stop: make(chan struct{}), impatient: true}
	t.Cleanup(l.end)
	for session, work := range []func(int, *rand.Rand){l.one, l.one, l.large, l.many, l.many} {
		l.sessions.Go(func() { work(session, rand.New(rand.NewPCG(seed, uint64(session)))) })
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.unfollow = cancel
	for partition := range partitions {
		reading := l.history.Begin()
		l.followed = append(l.followed, reading)
		l.followers.Go(func() { l.follow(ctx, reading, partition) })
	}
	return l
}

// end stops all; it may be called twice.
func (l *load) end() {
	l.rest()
	l.unfollow()
	l.followers.Wait()
	_ = l.client.Close()
}

// rest stops the sessions, each of which waits for its last answers.
func (l *load) rest() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.sessions.Wait()
}

// working pauses for up to d, and tells whether the session goes on.
func (l *load) working(rng *rand.Rand, d time.Duration) bool {
	select {
	case <-l.stop:
		return false
	case <-time.After(time.Duration(rng.Int64N(int64(d)))):
		return true
	}
}

// record begins a record.
func (l *load) record(session, partition, size int) (history.ID, sq.Record) {
	id := l.history.Invoke(session, partition)
	return id, sq.Record{Key: []byte(id.String()), Value: history.Value(id, size)}
}

// answered tells the history how a record ended.
func (l *load) answered(id history.ID, partition int, ack sq.Ack, err error, hurried bool) {
	kind := sq.KindOf(err)
	switch {
	case err == nil && ack.Durability != sq.FsyncQuorum:
		l.t.Errorf("record %v: acknowledged with durability %v", id, ack.Durability)
		fallthrough
	case err == nil:
		if ack.Partition != partition {
			l.t.Errorf("record %v: sent to partition %d, acknowledged in %d", id, partition, ack.Partition)
		}
		l.history.OK(id, ack.Offset)
		l.acks.Add(1)
	case kind == sq.KindOutcomeUnknown:
		l.history.Unknown(id)
	default:
		l.history.Fail(id)
		if !hurried || kind != sq.KindDeadlineExceeded {
			l.t.Errorf("record %v: %v", id, err)
		}
	}
}

// size is small for most and large for a few.
func size(rng *rand.Rand) int {
	switch n := rng.IntN(100); {
	case n < 60:
		return 1 + rng.IntN(300)
	case n < 92:
		return 1 + rng.IntN(8<<10)
	default:
		return 1 + rng.IntN(64<<10)
	}
}

// one publishes a few records a call and waits for each call.
func (l *load) one(session int, rng *rand.Rand) {
	l.calls(session, rng, 10*time.Millisecond, func() []int {
		sizes := make([]int, 1+rng.IntN(8)*rng.IntN(2))
		for i := range sizes {
			sizes[i] = size(rng)
		}
		return sizes
	})
}

// large publishes 256 KiB at a time.
func (l *load) large(session int, rng *rand.Rand) {
	l.calls(session, rng, 300*time.Millisecond, func() []int { return []int{256 << 10} })
}

func (l *load) calls(session int, rng *rand.Rand, pause time.Duration, sizes func() []int) {
	producer := l.client.Producer(l.topic)
	for l.working(rng, pause) {
		partition := rng.IntN(partitions)
		var ids []history.ID
		var records []sq.Record
		for _, n := range sizes() {
			id, r := l.record(session, partition, n)
			ids, records = append(ids, id), append(records, r)
		}
		timeout, hurried := patience, l.impatient && rng.IntN(20) == 0
		if hurried {
			timeout = time.Duration(1+rng.IntN(200)) * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(l.t.Context(), timeout)
		results, err := producer.SendBatch(ctx, records, sq.ToPartition(partition))
		cancel()
		for i, id := range ids {
			l.answered(id, partition, results[i].Ack, results[i].Err, hurried)
		}
		_ = err // that of the first result
	}
}

// many publishes without waiting, and lets records gather into batches.
func (l *load) many(session int, rng *rand.Rand) {
	codec := []sq.Codec{sq.None, sq.S2, sq.LZ4, sq.Zstd}[rng.IntN(4)]
	producer := l.client.Producer(l.topic, sq.Linger(5*time.Millisecond), sq.Compression(codec), sq.DeliveryTimeout(patience))
	room := make(chan struct{}, window)
	for l.working(rng, 8*time.Millisecond) {
		partition := rng.IntN(partitions)
		for range 1 + rng.IntN(16) {
			room <- struct{}{}
			id, r := l.record(session, partition, size(rng)/4+1)
			producer.Go(r, func(ack sq.Ack, err error) {
				l.answered(id, partition, ack, err, false)
				<-room
			}, sq.ToPartition(partition))
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := producer.Close(ctx); err != nil {
		l.t.Errorf("session %d: %v", session, err)
	}
}

// follow reads a partition while it grows. A broker of which the disk fails may say so to readers before it ends; they go on behind what they
// have.
func (l *load) follow(ctx context.Context, reading *history.Reading, partition int) {
	next := sq.Offset(0)
	for ctx.Err() == nil {
		for r, err := range l.client.Read(ctx, l.topic, sq.From(next), sq.Partitions(partition), sq.ReuseRecords()) {
			if err != nil {
				if ctx.Err() == nil && !failedDisk.MatchString(err.Error()) {
					l.t.Errorf("follow %s/%d: %v", l.topic, partition, err)
					return
				}
				break
			}
			reading.Observe(r.Partition, r.Offset, r.Value)
			next = sq.Offset(r.Offset + 1)
		}
	}
}

// await returns when n more records were acknowledged.
func (l *load) await(n int64) {
	l.t.Helper()
	from := l.acks.Load()
	eventually(l.t, 2*patience, "more acknowledgements of "+l.topic, func() bool { return l.acks.Load() >= from+n })
}

// readAll reads the topic from its start to its end and checks it.
func (l *load) readAll() *history.Reading {
	l.t.Helper()
	reading := l.history.Begin()
	ctx, cancel := context.WithTimeout(l.t.Context(), 2*patience)
	defer cancel()
	for r, err := range l.client.Read(ctx, l.topic, sq.From(sq.Earliest), sq.Until(sq.Latest)) {
		if err != nil {
			l.t.Fatalf("read all of %s: %v", l.topic, err)
		}
		reading.Observe(r.Partition, r.Offset, r.Value)
	}
	l.judge(reading.Complete())
	return reading
}

// settle ends the load and checks all of it.
func (l *load) settle() *history.Reading {
	l.t.Helper()
	l.rest()
	all := l.readAll()
	l.unfollow()
	l.followers.Wait()
	for _, reading := range l.followed {
		l.judge(reading.Follows(all))
	}
	return all
}

// judge fails the test where there are anomalies.
func (l *load) judge(found []history.Anomaly) {
	l.t.Helper()
	const shown = 20
	for i, a := range found {
		if i == shown {
			l.t.Errorf("and %d more", len(found)-shown)
			break
		}
		l.t.Error(a)
	}
	if len(found) > 0 {
		l.t.FailNow()
	}
}
