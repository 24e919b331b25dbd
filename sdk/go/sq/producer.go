package sq

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
	"github.com/seedqueue/sq/sdk/go/internal/outbox"
)

// Producer publishes records to a topic. It gathers them into batches, for each partition. Make one a topic and share it.
type Producer struct {
	client  *Client
	topic   string
	cfg     producerConfig
	box     *outbox.Outbox
	invalid error // what is wrong with the options; every call gives it
}

// Producer makes a producer for a topic. What is wrong with the options, every call of it says.
func (c *Client) Producer(topic string, options ...ProducerOption) *Producer {
	cfg := producerConfig{linger: DefaultLinger, deliveryTimeout: DefaultDeliveryTimeout, maxBuffered: c.cfg.budget, batchBytes: batch.DefaultMaxBytes}
	for _, option := range options {
		option(&cfg)
	}
	p := &Producer{client: c, topic: topic, cfg: cfg, invalid: cfg.check(topic)}
	name, err := gateway.ParseName(topic)
	if p.invalid == nil && err != nil {
		p.invalid = errorOf("make producer", err)
	}
	p.box = outbox.New(outbox.Config{
		Topic: topic, Link: c.publish, Account: c.budget.Account(cfg.maxBuffered, false), Limit: cfg.maxBuffered,
		LookUp: func(ctx context.Context, create bool) (*gateway.Topic, error) {
			state, err := c.lookUp(ctx, topic, name, create)
			return state, faultOf(err)
		},
		Backoff: c.backoff, Deliver: deliver, Now: time.Now, Timer: time.NewTimer, Chance: rand.IntN, Tracer: c.tracer, Log: c.log,
		Linger: cfg.linger, BatchBytes: cfg.batchBytes, Codec: cfg.codec, AckNone: cfg.ackNone,
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		p.box.Stop()
	} else {
		c.mu.producers[p] = struct{}{}
	}
	return p
}

func (cfg *producerConfig) check(topic string) error {
	op := "make producer of " + topic
	switch {
	case cfg.linger < 0 || cfg.linger > MaxLinger:
		return invalidf(op, "linger %s is outside [0, %s]", cfg.linger, MaxLinger)
	case cfg.maxBuffered < 1:
		return invalidf(op, "buffer of %d bytes", cfg.maxBuffered)
	case cfg.batchBytes < 1 || cfg.batchBytes > batch.MaxBytes:
		return invalidf(op, "batch of %d bytes is outside [1, %d]", cfg.batchBytes, batch.MaxBytes)
	case cfg.codec > batch.Zstd:
		return invalidf(op, "unknown codec %d", cfg.codec)
	case cfg.deliveryTimeout < 0:
		return invalidf(op, "delivery timeout %s", cfg.deliveryTimeout)
	}
	return nil
}

// Send publishes one record and waits for its answer; it tries again until ctx ends. ErrOutcomeUnknown: the record may or may not be stored;
// any other error: it is not.
func (p *Producer) Send(ctx context.Context, r Record, options ...SendOption) (Ack, error) {
	results, err := p.SendBatch(ctx, []Record{r}, options...)
	if err != nil {
		return Ack{Offset: -1}, err
	}
	return results[0].Ack, nil
}

// SendBatch publishes records and waits for their answers. It is not atomic: each record has a Result of its own, in the order of records;
// err is that of the first one that failed. Records of one partition are stored in the order given, though others may come between.
func (p *Producer) SendBatch(ctx context.Context, records []Record, options ...SendOption) ([]Result, error) {
	if p.invalid != nil {
		results := make([]Result, len(records))
		for i := range results {
			results[i] = Result{Ack: Ack{Offset: -1}, Err: p.invalid}
		}
		return results, p.invalid
	}
	if len(records) == 0 {
		return nil, nil
	}
	now := batch.Micros(time.Now())
	op := p.box.Enqueue(ctx, len(records), func(i int, into *batch.Record) { fillRecord(into, &records[i], now) }, namedPartition(options))
	select {
	case <-op.Done:
	case <-ctx.Done():
		if op.GiveUp("publish to "+p.topic, context.Cause(ctx)) {
			p.box.WakeAll()
		}
	}
	results := make([]Result, len(records))
	var first error
	failed := len(records)
	for _, part := range op.Leave() {
		r := Result{Ack: ackOf(part.Answer)}
		if part.Err != nil {
			r.Err = errorOf("publish to "+p.topic, part.Err)
			if part.First < failed {
				failed, first = part.First, r.Err
			}
		}
		for i := range part.Count {
			results[part.First+i] = r
			if r.Offset >= 0 {
				r.Offset++
			}
		}
	}
	return results, first
}

// Go hands a record over and returns; fn, which may be nil, gets its answer later. It waits only while the buffer is full. Answers of one
// partition come in order, on a goroutine that sends: fn must not wait for anything, and must not call Send, Flush or Close.
func (p *Producer) Go(r Record, fn func(Ack, error), options ...SendOption) {
	if err := p.post(&r, fn, namedPartition(options)); err != nil && fn != nil {
		fn(Ack{Offset: -1}, err)
	}
}

func (p *Producer) post(r *Record, fn func(Ack, error), named int) error {
	if p.invalid != nil {
		return p.invalid
	}
	now := time.Now()
	var rec batch.Record
	fillRecord(&rec, r, batch.Micros(now))
	var call any
	if fn != nil {
		call = fn
	}
	var deadline time.Time
	if p.cfg.deliveryTimeout > 0 {
		deadline = now.Add(p.cfg.deliveryTimeout)
	}
	if err := p.box.Post(context.Background(), &rec, call, deadline, named); err != nil {
		return errorOf("publish to "+p.topic, err)
	}
	return nil
}

// deliver gives an answer to the function that came with its record.
func deliver(call any, a outbox.Answer, err error) {
	fn, ok := call.(func(Ack, error))
	if !ok {
		return
	}
	if err != nil {
		fn(Ack{Offset: -1}, errorOf("publish", err))
		return
	}
	fn(ackOf(a), nil)
}

func ackOf(a outbox.Answer) Ack {
	return Ack{Partition: a.Partition, Offset: a.Offset, Duplicate: a.Duplicate, Durability: Durability(a.Durability), AppendTime: batch.Time(a.AppendTime)}
}

// Flush sends what is waiting and returns when every record that was handed over before has its answer, or when ctx ends.
func (p *Producer) Flush(ctx context.Context) error {
	if err := p.box.Flush(ctx); err != nil {
		return errorOf("flush "+p.topic, err)
	}
	return nil
}

// Close flushes, then ends the producer. What has no answer when ctx ends fails.
func (p *Producer) Close(ctx context.Context) error {
	p.box.Close()
	err := p.Flush(ctx)
	p.box.Stop()
	p.client.mu.Lock()
	delete(p.client.mu.producers, p)
	p.client.mu.Unlock()
	return err
}

// namedPartition gives the partition that options name, -1 = none.
func namedPartition(options []SendOption) int {
	if len(options) == 0 {
		return -1 // and nothing is allocated
	}
	cfg := sendConfig{partition: -1}
	for _, option := range options {
		option(&cfg)
	}
	return cfg.partition
}

// fillRecord makes a record of what the user gave; now is its time if he gave none, in microseconds since 1970.
func fillRecord(into *batch.Record, r *Record, now int64) {
	into.Key, into.Value, into.Headers, into.Timestamp = r.Key, r.Value, r.Headers, now
	if !r.Timestamp.IsZero() {
		into.Timestamp = batch.Micros(r.Timestamp)
	}
}
