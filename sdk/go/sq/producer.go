package sq

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Producer publishes records to a topic. It gathers them into batches, one lane a partition. Make one a topic and share it.
type Producer struct {
	client   *Client
	topic    string
	cfg      producerConfig
	invalid  error // what is wrong with the options; every call gives it
	buffered *account
	builders sync.Pool // of *batch.Builder
	messages sync.Pool // of *[]byte
	parcels  sync.Pool // of *[]entry

	closed atomic.Bool // takes no more records
	plan   atomic.Pointer[plan]
	sticky atomic.Int64 // partition of records without a key
	moved  atomic.Int64 // counts parcels that went to other lanes

	done    chan struct{} // closed by stop
	spawn   func(run func(ctx context.Context))
	cancel  context.CancelFunc
	running sync.WaitGroup
	mu      struct {
		sync.Mutex
		stopped bool   // starts no more lanes
		pid     uint64 // 0 = not asked for yet
		lanes   []*lane
	}
}

// plan is where records go at one moment. It does not change.
type plan struct {
	topic *topicState
	lanes []*lane // by partition
}

// Producer makes a producer for a topic. What is wrong with the options, every call of it says.
func (c *Client) Producer(topic string, options ...ProducerOption) *Producer {
	cfg := producerConfig{linger: DefaultLinger, deliveryTimeout: DefaultDeliveryTimeout, maxBuffered: c.cfg.budget, batchBytes: batch.DefaultMaxBytes}
	for _, option := range options {
		option(&cfg)
	}
	p := &Producer{client: c, topic: topic, cfg: cfg, done: make(chan struct{})}
	p.buffered = c.budget.account(cfg.maxBuffered, false)
	p.builders.New = func() any { return new(batch.Builder) }
	p.messages.New = func() any { return new([]byte) }
	p.parcels.New = func() any { return new([]entry) }
	p.sticky.Store(-1)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	p.spawn = func(run func(ctx context.Context)) { p.running.Go(func() { run(ctx) }) }
	p.invalid = cfg.check(topic)
	if p.invalid == nil {
		_, err := parseTopic(topic)
		p.invalid = err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.closed {
		p.mu.stopped = true
		p.closed.Store(true)
		close(p.done)
		cancel()
		return p
	}
	c.mu.producers[p] = struct{}{}
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

// Flush sends what is waiting and returns when every record that was handed over before has its answer, or when ctx ends.
func (p *Producer) Flush(ctx context.Context) error {
	for {
		moved := p.moved.Load()
		p.mu.Lock()
		lanes := slices.Clone(p.mu.lanes)
		p.mu.Unlock()
		for _, l := range lanes {
			if err := l.flush(ctx); err != nil {
				return errorOf("flush "+p.topic, err)
			}
		}
		if p.moved.Load() == moved {
			return nil
		}
	}
}

// Close flushes, then ends the producer. What has no answer when ctx ends fails.
func (p *Producer) Close(ctx context.Context) error {
	p.closed.Store(true)
	err := p.Flush(ctx)
	p.stop()
	p.client.mu.Lock()
	delete(p.client.mu.producers, p)
	p.client.mu.Unlock()
	return err
}

// stop ends the lanes; what they have fails. It returns when they have ended.
func (p *Producer) stop() {
	p.mu.Lock()
	first := !p.mu.stopped
	p.mu.stopped = true
	p.mu.Unlock()
	p.closed.Store(true)
	if first {
		close(p.done)
		p.cancel()
	}
	p.running.Wait()
}

// ready refuses records that cannot be taken.
func (p *Producer) ready() error {
	if p.invalid != nil {
		return p.invalid
	}
	if p.closed.Load() {
		return p.closedError()
	}
	return nil
}

func (p *Producer) closedError() error {
	return &Error{Kind: KindCanceled, Op: "publish to " + p.topic, Err: ErrClosed}
}

// current gives the plan, asking for metadata the first time.
func (p *Producer) current(ctx context.Context) (*plan, error) {
	if now := p.plan.Load(); now != nil {
		return now, nil
	}
	topic, err := p.client.topic(ctx, p.topic, true)
	if err != nil {
		return nil, err
	}
	return p.adopt(topic), nil
}

// refresh asks for metadata again.
func (p *Producer) refresh(ctx context.Context) (*plan, error) {
	topic, err := p.client.lookUp(ctx, p.topic, false)
	if err != nil {
		return nil, err
	}
	return p.adopt(topic), nil
}

// adopt makes a plan of metadata. Lanes of the same topic stay; a topic made anew has its own.
func (p *Producer) adopt(topic *topicState) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := p.plan.Load()
	next := &plan{topic: topic, lanes: make([]*lane, len(topic.partitions))}
	if old != nil && old.topic.idHi == topic.idHi && old.topic.idLo == topic.idLo {
		copy(next.lanes, old.lanes)
	}
	for i, l := range next.lanes {
		if l == nil {
			next.lanes[i] = newLane(p, topic, i)
			p.mu.lanes = append(p.mu.lanes, next.lanes[i])
		}
	}
	p.plan.Store(next)
	return next
}

// start runs a lane; false if the producer is stopped.
func (p *Producer) start(l *lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.stopped {
		return false
	}
	p.spawn(l.run)
	return true
}

// choose gives the partition of a record, and the version of the ranges if it went by them.
func (p *Producer) choose(plan *plan, key []byte, named int) (partition int, mapVersion uint32) {
	switch {
	case named >= 0:
		return named, 0
	case key != nil:
		return plan.topic.ofHash(batch.KeyHash(key)), plan.topic.mapVersion
	}
	if at := int(p.sticky.Load()); at >= 0 && at < len(plan.lanes) {
		return at, 0
	}
	at := p.pick(plan)
	p.sticky.Store(int64(at))
	return at, 0
}

// pick draws a partition, one with a leader if there is such.
func (p *Producer) pick(plan *plan) int {
	at := 0
	for range 4 {
		at = rand.IntN(len(plan.lanes))
		if plan.topic.partitions[at].leader != 0 {
			break
		}
	}
	return at
}

// unstick sends the records without a key elsewhere, since a batch of them is complete.
func (p *Producer) unstick(partition int) {
	if plan := p.plan.Load(); plan != nil && len(plan.lanes) > 1 {
		p.sticky.CompareAndSwap(int64(partition), int64(p.pick(plan)))
	}
}

// producerID gives the id of a new session. fresh: the id of a session that broke must not come again; else lanes share one, each with its
// own sequence.
func (p *Producer) producerID(ctx context.Context, fresh bool) (uint64, error) {
	if !fresh {
		p.mu.Lock()
		id := p.mu.pid
		p.mu.Unlock()
		if id != 0 {
			return id, nil
		}
	}
	id, err := p.initProducer(ctx)
	if err != nil {
		return 0, err
	}
	if !fresh {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.mu.pid == 0 {
			p.mu.pid = id
		}
		return p.mu.pid, nil
	}
	return id, nil
}

func (p *Producer) initProducer(ctx context.Context) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	conn, err := p.client.publish.get(ctx)
	if err != nil {
		return 0, err
	}
	reply, err := conn.Call(ctx, func(req wirecapnp.Request) error {
		_, err := req.NewInitProducer()
		return err
	})
	if err != nil {
		p.client.publish.judge(context.WithoutCancel(ctx), conn, err)
		return 0, err
	}
	defer reply.Release()
	out, err := reply.Response.InitProducer()
	if err != nil {
		return 0, unreadable(err)
	}
	if out.ProducerId() == 0 {
		return 0, unreadable(errors.New("producer id 0"))
	}
	return out.ProducerId(), nil
}
