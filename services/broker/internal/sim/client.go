package sim

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// producer publishes values to a partition, each of which no other ever has, as one session of a producer id or, once, without one.
type producer struct {
	w       *World
	part    *part
	rng     *rand.Rand
	pid     uint64 // 0: not idempotent, and nothing is tried twice
	seq     uint64
	flight  []*publish // in order
	window  int
	records int // of a batch; 0 = some
	target  partition.NodeID
	think   time.Duration
	shown   uint64 // the last of its values that was seen in the log
}

// publish is one batch of a client.
type publish struct {
	c        *producer
	values   []uint64
	seq      uint64
	invoked  time.Duration
	before   partition.Offset // what was acknowledged to anybody when it was invoked ends here
	attempt  int
	done     bool
	unknown  bool // it may be in the log
	refused  bool // it certainly is not
	acked    bool
	msg      []byte
	known    bool // at which offsets
	at, last partition.Offset
}

func (w *World) newProducer(i int) *producer {
	c := &producer{
		w: w, part: w.parts[i%len(w.parts)], rng: rand.New(rand.NewPCG(w.seed, 1000+uint64(i))), pid: uint64(100 + i), window: w.knobs.window,
		think: w.knobs.think, target: 1,
	}
	if i == 2 {
		c.pid, c.window = 0, 2
	}
	w.agenda.push(w.now+time.Duration(c.rng.Int64N(int64(c.think))), c.produce)
	return c
}

// produce begins a publish now and then.
func (c *producer) produce() {
	if c.w.calm {
		return
	}
	c.w.agenda.push(c.w.now+1+time.Duration(c.rng.Int64N(int64(2*c.think))), c.produce)
	if len(c.flight) >= c.window {
		return
	}
	c.begin()
}

func (c *producer) begin() *publish {
	o := &publish{c: c, seq: c.seq, invoked: c.w.now, before: c.part.canon.acked}
	n := c.records
	if n == 0 {
		n = 1 + c.rng.IntN(3)
	}
	for range n {
		c.w.value++
		o.values = append(o.values, c.w.value)
		c.w.published = append(c.w.published, o)
	}
	c.seq += uint64(len(o.values))
	c.flight = append(c.flight, o)
	o.send()
	return o
}

// message is the batch: values of eight bytes and some more. The leader stamps the bytes: each attempt has its own.
func (o *publish) message() []byte {
	if o.msg == nil {
		o.msg = o.build()
	}
	return slices.Clone(o.msg)
}

func (o *publish) build() []byte {
	b := &o.c.w.builder
	b.Reset()
	for _, v := range o.values {
		value := make([]byte, 8+v*7919%o.c.w.knobs.valueBytes)
		binary.LittleEndian.PutUint64(value, v)
		if err := b.Add(batch.Record{Value: value, Timestamp: 1}); err != nil {
			panic(err)
		}
	}
	options := batch.BuildOptions{}
	if o.c.pid > 0 {
		options.ProducerID, options.BaseSequence = o.c.pid, o.seq
	}
	msg, err := b.Build(nil, options)
	if err != nil {
		panic(err)
	}
	return msg
}

func valueOf(p []byte) uint64 {
	if len(p) < 8 {
		return 0
	}
	return binary.LittleEndian.Uint64(p)
}

// send tries once, at the broker that is believed to lead. No answer for a while is tried elsewhere.
func (o *publish) send() {
	w := o.c.w
	o.attempt++
	attempt := o.attempt
	answer := func(p replica.Published, err error) {
		if !o.done && (attempt == o.attempt || err == nil) {
			o.answered(p, err)
		}
	}
	w.agenda.push(w.now+w.knobs.timeout, func() {
		answer(replica.Published{}, fault.Errorf(fault.OutcomeUnknown, "no answer"))
	})
	n := w.node(o.c.target)
	w.agenda.push(w.now+w.wire.clientTime(), func() {
		p := n.p
		if p == nil {
			w.agenda.push(w.now+w.wire.clientTime(), func() { answer(replica.Published{}, fault.Errorf(fault.NotLeader, "nobody there")) })
			return
		}
		p.after("publish", p.n.brief(), func() {
			h := p.serving(o.c.part)
			if h == nil {
				w.agenda.push(w.now+w.wire.clientTime(), func() { answer(replica.Published{}, fault.Errorf(fault.NotLeader, "no replica there")) })
				return
			}
			msg := o.message()
			h.r.Publish(replica.Publish{
				Msg:     msg,
				Release: func() { clear(msg) },
				Done: func(pub replica.Published, err error) {
					if p.dead {
						return
					}
					if err == nil {
						w.stats.add("acks")
						w.moment("after an ack", n)
					}
					if w.rng.IntN(1000) >= w.knobs.loss {
						w.agenda.push(w.now+w.wire.clientTime(), func() { answer(pub, err) })
					}
				},
			})
		})
	})
}

// serving is the replica of a partition that is open in a process: the youngest.
func (p *process) serving(pt *part) *held {
	for i := len(p.held) - 1; i >= 0; i-- {
		if h := p.held[i]; h.part == pt && h.r != nil && h.failed == nil {
			return h
		}
	}
	return nil
}

func (x *wire) clientTime() time.Duration {
	return x.w.knobs.latency/2 + time.Duration(x.w.rng.Int64N(int64(x.w.knobs.latency)))
}

// answered takes in what a broker, or the timeout, says.
func (o *publish) answered(p replica.Published, err error) {
	c, w := o.c, o.c.w
	kind := fault.KindOf(err)
	if w.out != nil {
		w.logf("producer %d: sequence %d, %d records, attempt %d: %v at %d, %v", c.pid, o.seq, len(o.values), o.attempt, kind, p.BaseOffset, err)
	}
	switch {
	case err == nil:
		o.ack(p)
		return
	case kind == fault.SequenceReused || kind == fault.Invalid || kind == fault.Internal || kind == fault.TooLarge:
		w.fail("a publish of producer %d, sequence %d is refused: %v", c.pid, o.seq, err)
	case kind == fault.OutcomeUnknown:
		o.unknown = true
	}
	w.stats.add("publish: " + kind.String())
	c.target = partition.NodeID(1 + c.rng.IntN(len(w.nodes)))
	if l := c.part.register.value.Leader.Broker; l != 0 && c.rng.IntN(4) > 0 {
		c.target = l
	}
	if c.pid == 0 {
		o.refused = !o.unknown
		c.over(o)
		return
	}
	wait := w.knobs.retry * time.Duration(min(o.attempt, 10))
	w.agenda.push(w.now+wait/2+time.Duration(c.rng.Int64N(int64(wait))), func() {
		if !o.done {
			o.send()
		}
	})
}

// ack holds an acknowledgement against what else is known.
func (o *publish) ack(p replica.Published) {
	c, w := o.c, o.c.w
	o.acked = true
	if p.OffsetKnown {
		o.known, o.at, o.last = true, p.BaseOffset, p.LastOffset
		if n := partition.Offset(len(o.values)); o.last != o.at+n-1 {
			w.fail("a batch of %d records has the offsets %d to %d", n, o.at, o.last)
		}
		if o.at < o.before {
			w.fail("reorder: a batch that was sent when %d was acknowledged is at %d of partition %d", o.before, o.at, c.part.index)
		}
		c.part.canon.acked = max(c.part.canon.acked, o.last+1)
	}
	c.over(o)
}

func (c *producer) over(o *publish) {
	o.done = true
	for len(c.flight) > 0 && c.flight[0].done {
		c.flight = c.flight[1:]
	}
}

// shown looks at a value when it is seen in the log for the first time.
func (w *World) shown(pt *part, value uint64, at partition.Offset) {
	if value == 0 || value > uint64(len(w.published)) {
		w.fail("value %d at %d of partition %d was never published", value, at, pt.index)
	}
	o := w.published[value-1]
	if o.c.part != pt {
		w.fail("value %d at %d is of partition %d, not %d", value, at, o.c.part.index, pt.index)
	}
	if value < o.c.shown && o.c.pid > 0 {
		w.fail("reorder: value %d at %d of partition %d comes behind %d of the same session", value, at, pt.index, o.c.shown)
	}
	o.c.shown = value
	if o.refused {
		w.fail("aborted read: value %d at %d of partition %d was refused", value, at, pt.index)
	}
}

// checkHistory looks at the whole history, once everything that is committed was read.
func (w *World) checkHistory() {
	for i, o := range w.published {
		at, found := o.c.part.canon.values[uint64(i+1)]
		switch {
		case o.acked && !found:
			w.fail("lost: value %d of partition %d was acknowledged at %d and is not in the log, which ends at %d", i+1, o.c.part.index, o.at, o.c.part.canon.end)
		case o.known && (at < o.at || at > o.last):
			w.fail("inconsistent offset: value %d of partition %d was acknowledged at %d and is at %d", i+1, o.c.part.index, o.at, at)
		case o.refused && found:
			w.fail("aborted read: value %d of partition %d was refused and is at %d", i+1, o.c.part.index, at)
		}
	}
}
