package sq

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/internal/budget"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
)

// Batch is records of one partition that lie behind each other in the log, as ReadBatches gives them. It is valid until the next round of
// the loop.
type Batch struct {
	Partition int
	// Offset is that of the first record, Next is behind the last; reading on begins there.
	Offset, Next int64
	// HighWatermark and LogStart are those of the partition when the batch was fetched.
	HighWatermark, LogStart int64
	AppendTime              time.Time
	Durability              Durability

	reader *batch.Reader
	first  int // record of the reader that is the first of the batch
	n      int
	rec    batch.Record
}

// Len gives the number of records.
func (b *Batch) Len() int { return b.n }

// Record fills into with record i, 0 ≤ i < Len. Its bytes are valid as long as the Batch.
func (b *Batch) Record(i int, into *Record) {
	b.rec.Headers = into.Headers
	b.reader.Record(b.first+i, &b.rec)
	into.Key, into.Value, into.Headers = b.rec.Key, b.rec.Value, b.rec.Headers
	into.Timestamp = batch.Time(b.rec.Timestamp)
	into.Partition, into.Offset = b.Partition, int64(b.reader.Offset(b.first+i))
	into.appendMicros = b.reader.Header().AppendTime
}

// Read gives the records of a topic, partition by partition in the order of their offsets, until ctx ends, the loop is left, or what Until
// says is reached. An error comes with a nil record. Behind a TrimmedError or a CorruptError the loop may go on; every other error is the
// last. Records may be kept; with ReuseRecords they may not.
func (c *Client) Read(ctx context.Context, topic string, options ...ReadOption) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		s, err := c.newStream(ctx, topic, options)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.close()
		if s.cfg.reuse {
			var rec Record
			s.run(yieldEach(&rec, yield))
			return
		}
		s.keep = true
		s.run(func(b *Batch, err error) bool {
			if err != nil {
				return yield(nil, err)
			}
			records := make([]Record, b.Len())
			for i := range records {
				b.Record(i, &records[i])
				if !yield(&records[i], nil) {
					return false
				}
			}
			return true
		})
	}
}

func yieldEach(rec *Record, yield func(*Record, error) bool) func(b *Batch, err error) bool {
	return func(b *Batch, err error) bool {
		if err != nil {
			return yield(nil, err)
		}
		for i := range b.Len() {
			b.Record(i, rec)
			if !yield(rec, nil) {
				return false
			}
		}
		return true
	}
}

// ReadBatches is Read for those who want batches: the cheapest way to read much.
func (c *Client) ReadBatches(ctx context.Context, topic string, options ...ReadOption) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		s, err := c.newStream(ctx, topic, options)
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.close()
		s.run(yield)
	}
}

// stream is a loop that reads. A fetcher a partition runs ahead of it.
type stream struct {
	client  *Client
	topic   *gateway.Topic
	name    string
	cfg     readConfig
	held    *budget.Account // answers that the loop has not taken
	scratch *budget.Account // what they inflate to
	keep    bool            // records outlive the batch
	chunks  chan chunk
	done    <-chan struct{}
	cause   func() error
	cancel  context.CancelFunc
	running sync.WaitGroup
	stops   map[int]context.CancelFunc // of the fetchers that run, by partition

	reader   batch.Reader
	inflated int // bytes counted for the reader's buffer
	out      Batch
}

// newStream finds out where to begin and to end, and starts the fetchers.
func (c *Client) newStream(ctx context.Context, topic string, options []ReadOption) (*stream, error) {
	op := "read " + topic
	cfg := readConfig{from: Earliest, readAhead: DefaultReadAhead}
	for _, option := range options {
		option(&cfg)
	}
	if cfg.readAhead < 1 || cfg.from == nil {
		return nil, invalidf(op, "read ahead %d bytes from %v", cfg.readAhead, cfg.from)
	}
	ctx, release := c.whileOpen(ctx)
	state, err := c.metadata(ctx, topic)
	if err == nil {
		err = cfg.check(state)
	}
	if err != nil {
		release()
		return nil, errorOf(op, err)
	}
	if len(cfg.partitions) == 0 {
		for i := range state.Partitions {
			cfg.partitions = append(cfg.partitions, i)
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &stream{
		client: c, topic: state, name: topic, cfg: cfg, held: c.budget.Account(cfg.readAhead, true),
		scratch: c.budget.Account(batch.MaxRawBytes, true), chunks: make(chan chunk, 4),
		done: ctx.Done(), cause: func() error { return context.Cause(ctx) }, stops: make(map[int]context.CancelFunc),
		cancel: func() { cancel(); release() },
	}
	if err := s.start(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (cfg *readConfig) check(state *gateway.Topic) error {
	seen := make(map[int]bool)
	for _, partition := range cfg.partitions {
		if err := state.Check(partition); err != nil {
			return err
		}
		if seen[partition] {
			return invalidf("", "partition %d is named twice", partition)
		}
		seen[partition] = true
	}
	_, fromOffset := cfg.from.(Offset)
	_, untilOffset := cfg.until.(Offset)
	if (fromOffset || untilOffset) && len(cfg.partitions) != 1 && len(state.Partitions) != 1 {
		return invalidf("", "an offset is a place in one partition: name it, the topic has %d", len(state.Partitions))
	}
	for _, at := range []Position{cfg.from, cfg.until} {
		if offset, ok := at.(Offset); ok && offset < 0 {
			return invalidf("", "offset %d", offset)
		}
	}
	return nil
}

// start places a fetcher at every partition.
func (s *stream) start(ctx context.Context) error {
	fetchers := make([]*fetcher, len(s.cfg.partitions))
	errs := make([]error, len(fetchers))
	var placing sync.WaitGroup
	room := make(chan struct{}, placesAtOnce)
	for i, partition := range s.cfg.partitions {
		room <- struct{}{}
		placing.Go(func() {
			fetchers[i], errs[i] = s.place(ctx, partition)
			<-room
		})
	}
	placing.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	for _, f := range fetchers {
		ctx, stop := context.WithCancel(ctx)
		s.stops[f.partition] = stop
		s.running.Go(func() { f.run(ctx) })
	}
	return nil
}

// place finds the offsets at which a partition's reading begins and ends.
func (s *stream) place(ctx context.Context, partition int) (*fetcher, error) {
	f := &fetcher{stream: s, partition: partition, end: -1, epoch: s.topic.Partitions[partition].Epoch, op: fmt.Sprintf("read %s/%d", s.name, partition)}
	if offset, ok := s.cfg.until.(Offset); ok {
		f.end = int64(offset)
	}
	if at, ok := s.cfg.until.(Time); ok {
		f.until = time.Time(at)
	}
	_, untilEdge := s.cfg.until.(Edge)
	offset, fromOffset := s.cfg.from.(Offset)
	if fromOffset && !untilEdge {
		f.offset = int64(offset)
		return f, nil
	}
	info, err := s.client.offsets(ctx, s.name, s.topic, partition, s.cfg.from)
	if err != nil {
		return nil, err
	}
	f.offset = info.Offset
	f.sliding = s.cfg.from == Earliest
	if untilEdge {
		f.end = info.HighWatermark
		if s.cfg.until == Earliest {
			f.end = info.LogStart
		}
	}
	return f, nil
}

// close ends the fetchers, waits for them, and gives back what the stream held.
func (s *stream) close() {
	s.cancel()
	for _, stop := range s.stops {
		stop()
	}
	s.running.Wait()
	for len(s.chunks) > 0 {
		s.release(<-s.chunks)
	}
	s.scratch.Give(s.inflated)
}

// release gives back what a chunk holds.
func (s *stream) release(k chunk) {
	if k.reply != nil {
		k.reply.Release()
	}
	s.held.Give(k.taken)
}

// run gives batches to the loop until it is left or all partitions are at their end.
func (s *stream) run(yield func(*Batch, error) bool) {
	for len(s.stops) > 0 {
		var k chunk
		select {
		case k = <-s.chunks:
		case <-s.done:
			yield(nil, errorOf("read "+s.name, s.cause()))
			return
		}
		more := s.stops[k.partition] == nil || s.give(k, yield) // a partition at its end may have run ahead
		s.release(k)
		if !more {
			return
		}
	}
}

// finish says that a partition is at its end.
func (s *stream) finish(partition int) {
	if stop := s.stops[partition]; stop != nil {
		stop()
		delete(s.stops, partition)
	}
}

// give gives what a chunk has to the loop; false = the loop is over.
func (s *stream) give(k chunk, yield func(*Batch, error) bool) bool {
	if k.err != nil {
		if !yield(nil, k.err) || k.last {
			return false
		}
	}
	from := k.from
	if k.reply != nil {
		for msg, err := range batch.Each(k.reply.Body) {
			var h batch.Header
			if err == nil {
				h, err = batch.ParseHeader(msg)
			}
			if err != nil {
				// Where the next batch begins is not known, so the rest of the answer is skipped.
				bad := &CorruptError{Topic: s.name, Partition: k.partition, Offset: from, Next: k.next, Err: err}
				if !yield(nil, bad) {
					return false
				}
				break
			}
			if s.beyond(&k, h) {
				s.finish(k.partition)
				return true
			}
			if int64(h.NextOffset()) <= from {
				continue
			}
			if !h.IsControl() && !s.decode(&k, msg, h, from, yield) {
				return false
			}
			from = int64(h.NextOffset())
		}
	}
	if k.last {
		s.finish(k.partition)
	}
	return true
}

// beyond tells whether a batch is the first that Until excludes.
func (s *stream) beyond(k *chunk, h batch.Header) bool {
	if k.end >= 0 && int64(h.BaseOffset) >= k.end {
		return true
	}
	return !k.until.IsZero() && h.AppendTime >= batch.Micros(k.until)
}

// decode gives one batch to the loop; false = the loop is over.
func (s *stream) decode(k *chunk, msg []byte, h batch.Header, from int64, yield func(*Batch, error) bool) bool {
	if s.keep && h.Kind == batch.Records {
		msg = append([]byte(nil), msg...) // the answer's memory is used again
	}
	if h.Kind == batch.Packed && !s.keep && int(h.RawSize) > s.inflated {
		s.scratch.Adjust(int(h.RawSize) - s.inflated)
		s.inflated = int(h.RawSize)
	}
	if err := s.reader.Reset(msg); err != nil {
		return yield(nil, &CorruptError{Topic: s.name, Partition: k.partition, Offset: max(from, int64(h.BaseOffset)), Next: int64(h.NextOffset()), Err: err})
	}
	if s.keep {
		s.reader.Detach()
	}
	first, n := 0, s.reader.Len()
	for first < n && int64(s.reader.Offset(first)) < from {
		first++
	}
	for k.end >= 0 && n > first && int64(s.reader.Offset(n-1)) >= k.end {
		n--
	}
	if first == n {
		return true
	}
	s.out = Batch{
		Partition: k.partition, Offset: int64(s.reader.Offset(first)), Next: int64(s.reader.Offset(n-1)) + 1,
		HighWatermark: k.highWatermark, LogStart: k.logStart, AppendTime: batch.Time(h.AppendTime), Durability: k.durability,
		reader: &s.reader, first: first, n: n - first,
	}
	return yield(&s.out, nil)
}
