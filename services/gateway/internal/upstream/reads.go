package upstream

import (
	"context"
	"strconv"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// bounces bounds how often one fetch goes to and fro between broker and tierers.
const bounces = 4

// Fetch says what to read.
type Fetch struct {
	Partition partition.ID
	Offset    partition.Offset
	Epoch     partition.Epoch // the highest that the reader has seen
	MaxBytes  uint32          // 0 = the broker's default
	Wait      time.Duration   // for a record at Offset
}

func (f *Fetch) fill(req wirecapnp.Request, epoch partition.Epoch, wait time.Duration) error {
	fetch, err := req.NewFetch()
	if err != nil {
		return err //nolint:wrapcheck // frame says what it was building.
	}
	fetch.SetPartition(uint32(f.Partition.Index))
	fetch.SetOffset(uint64(f.Offset))
	fetch.SetEpoch(uint64(max(epoch, f.Epoch)))
	fetch.SetMaxBytes(f.MaxBytes)
	fetch.SetWaitMillis(uint32(min(max(wait.Milliseconds(), 0), 1<<31)))
	return setTopic(fetch.NewTopic, f.Partition.Topic)
}

// fromMember asks those who follow a leader that cannot be asked, each once: what they have below their high watermark is right. nil: none of them
// has it.
func (c *Caller) fromMember(ctx context.Context, f *Fetch, leader partition.NodeID) *frame.Reply {
	for _, member := range c.cluster.router.Table().Members(f.Partition, leader) {
		attempt, cancel := context.WithTimeout(ctx, c.cluster.limits.MemberTimeout)
		reply, err := c.askAt(attempt, member.Addr, func(req wirecapnp.Request) error { return f.fill(req, 0, 0) })
		cancel()
		if err == nil {
			c.cluster.metrics.members.Inc()
			return reply
		}
	}
	return nil
}

// Fetch reads from the leader, from those who follow it where it cannot be asked, or from a tierer below the local start. cold says that a tierer answered: it does not know the newest high
// watermark. The error is a fault.
func (c *Caller) Fetch(ctx context.Context, f Fetch) (reply *frame.Reply, cold bool, err error) {
	tier := c.cluster.marks.isCold(f.Partition, f.Offset)
	turn := c.turn(f.Partition)
	for bounce := 0; ; bounce++ {
		if tier {
			reply, err = c.fromTier(ctx, f.Partition, func(req wirecapnp.Request) error { return f.fill(req, 0, 0) })
			// What is remembered may be of an earlier leader: this one may have on its disk what no tierer can give now.
			guessed := bounce == 0 && fault.Is(err, fault.Unavailable)
			if !guessed && !fault.Is(err, fault.OffsetOutOfRange) {
				return reply, true, err
			}
			c.cluster.metrics.cold.WithLabelValues("back").Inc()
		}
		reply, err = c.toLeaderOr(ctx, f.Partition, func(req wirecapnp.Request, epoch partition.Epoch) error { return f.fill(req, epoch, f.Wait) },
			func(leader partition.NodeID) *frame.Reply { return c.fromMember(ctx, &f, leader) })
		if err == nil {
			c.learn(f.Partition, reply)
			return reply, false, nil
		}
		if !fault.Is(err, fault.OffsetTiered) {
			return nil, false, err
		}
		c.cluster.marks.set(f.Partition, localStartOf(err))
		if bounce == bounces {
			return nil, false, fault.Errorf(fault.Unavailable, "read offset %d: it left the broker and no tierer has it yet: %w", f.Offset, err)
		}
		if tier { // the tierers know less than the broker: they have to catch up
			if err := turn.pause(ctx); err != nil {
				return nil, false, err
			}
		}
		tier = true
	}
}

// learn remembers the local start.
func (c *Caller) learn(id partition.ID, reply *frame.Reply) {
	if fetch, err := reply.Response.Fetch(); err == nil {
		c.cluster.marks.set(id, partition.Offset(fetch.LocalStart()))
	}
}

func localStartOf(err error) partition.Offset {
	if f, ok := asFault(err); ok {
		return partition.Offset(f.Offset)
	}
	return 0
}

// pause waits a step.
func (t *turn) pause(ctx context.Context) error {
	t.step = min(max(2*t.step, t.cluster.limits.RetryFirst), t.cluster.limits.RetryLast)
	timer := t.cluster.clock.NewTimer(t.step)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-t.life.Done():
		return errClosing()
	case <-ctx.Done():
		return fault.Wrap("wait for another attempt", context.Cause(ctx))
	}
}

// fromTier asks the partition's tierer and, where it fails, the next. An answer about the offset itself is final.
func (c *Caller) fromTier(ctx context.Context, id partition.ID, fill func(wirecapnp.Request) error) (*frame.Reply, error) {
	addrs := c.cluster.router.Table().Tierers(id)
	err := error(fault.Errorf(fault.Unavailable, "read from the bucket: no tierer is there"))
	for _, addr := range addrs {
		var reply *frame.Reply
		reply, err = c.askAt(ctx, addr, fill)
		if err == nil {
			c.cluster.metrics.cold.WithLabelValues("served").Inc()
			return reply, nil
		}
		err = readFault(ctx, err)
		switch fault.KindOf(err) {
		case fault.OffsetOutOfRange, fault.OffsetTrimmed, fault.Invalid:
			return nil, err
		case fault.DeadlineExceeded, fault.Canceled:
			if ctx.Err() != nil {
				return nil, err
			}
		}
		c.cluster.metrics.cold.WithLabelValues("failed").Inc()
	}
	return nil, fault.Wrap("read from the bucket", err)
}

// At says which offset ListOffsets is to find.
type At struct {
	Earliest, Latest bool
	Time             int64 // append time in microseconds since 1970; where neither of the others is set
}

// Offsets is the answer to ListOffsets.
type Offsets struct {
	Offset        partition.Offset
	Epoch         partition.Epoch
	HighWatermark partition.Offset
	LogStart      partition.Offset
	LocalStart    partition.Offset
}

func (a At) fill(req wirecapnp.Request, id partition.ID, epoch partition.Epoch) error {
	list, err := req.NewListOffsets()
	if err != nil {
		return err //nolint:wrapcheck // frame says what it was building.
	}
	list.SetPartition(uint32(id.Index))
	list.SetEpoch(uint64(epoch))
	switch {
	case a.Earliest:
		list.SetEarliest()
	case a.Latest:
		list.SetLatest()
	default:
		list.SetTime(a.Time)
	}
	return setTopic(list.NewTopic, id.Topic)
}

// ListOffsets finds an offset. A time below the local part is looked up in the tier: the leader then can only say where its own part
// starts. The error is a fault.
func (c *Caller) ListOffsets(ctx context.Context, id partition.ID, epoch partition.Epoch, at At) (Offsets, error) {
	reply, err := c.toLeader(ctx, id, func(req wirecapnp.Request, known partition.Epoch) error { return at.fill(req, id, max(epoch, known)) })
	if err != nil {
		return Offsets{}, err
	}
	found, err := readOffsets(reply)
	if err != nil {
		return Offsets{}, err
	}
	c.cluster.marks.set(id, found.LocalStart)
	if at.Earliest || at.Latest || found.Offset > found.LocalStart || found.LocalStart <= found.LogStart {
		return found, nil
	}
	tiered, err := c.listTier(ctx, id, at, found.LocalStart)
	if err != nil {
		return Offsets{}, err
	}
	found.Offset = max(min(found.Offset, tiered), found.LogStart)
	return found, nil
}

// listTier finds the first tiered offset of a time, or localStart where all tiered records are older.
func (c *Caller) listTier(ctx context.Context, id partition.ID, at At, localStart partition.Offset) (partition.Offset, error) {
	turn := c.turn(id)
	for bounce := 0; ; bounce++ {
		reply, err := c.fromTier(ctx, id, func(req wirecapnp.Request) error { return at.fill(req, id, 0) })
		if err != nil {
			return 0, err
		}
		tiered, err := readOffsets(reply)
		if err != nil {
			return 0, err
		}
		if tiered.Offset < tiered.HighWatermark {
			return tiered.Offset, nil
		}
		if tiered.HighWatermark >= localStart { // it has seen all that is not local, and nothing is that young
			return localStart, nil
		}
		if bounce == bounces {
			return 0, fault.Errorf(fault.Unavailable, "find the offset of a time: the bucket is known up to %d, the broker starts at %d",
				tiered.HighWatermark, localStart)
		}
		if err := turn.pause(ctx); err != nil {
			return 0, err
		}
	}
}

func readOffsets(reply *frame.Reply) (Offsets, error) {
	defer reply.Release()
	list, err := reply.Response.ListOffsets()
	if err != nil {
		return Offsets{}, unreadable(err)
	}
	return Offsets{
		Offset: partition.Offset(list.Offset()), Epoch: partition.Epoch(list.Epoch()), HighWatermark: partition.Offset(list.HighWatermark()),
		LogStart: partition.Offset(list.LogStart()), LocalStart: partition.Offset(list.LocalStart()),
	}, nil
}

// InitProducer asks any broker for a producer id. A lost answer costs an id and nothing else, so every broker may be tried.
func (c *Caller) InitProducer(ctx context.Context) (uint64, error) {
	turn := c.turn(partition.ID{})
	seed := c.cluster.clock.Now().UnixNano()
	for {
		err := error(fault.Errorf(fault.Unavailable, "get a producer id: no broker is there"))
		for _, addr := range c.cluster.router.Table().Brokers(strconv.FormatInt(seed, 36)) {
			var reply *frame.Reply
			reply, err = c.askAt(ctx, addr, func(req wirecapnp.Request) error {
				_, err := req.NewInitProducer()
				return err //nolint:wrapcheck // frame says what it was building.
			})
			if err != nil {
				if again(err) {
					continue
				}
				return 0, err
			}
			defer reply.Release()
			answer, err := reply.Response.InitProducer()
			if err != nil {
				return 0, unreadable(err)
			}
			return answer.ProducerId(), nil
		}
		if c.cluster.clock.Now().Sub(turn.started) >= c.cluster.limits.RetryFor || ctx.Err() != nil {
			return 0, readFault(ctx, err)
		}
		if pauseErr := turn.pause(ctx); pauseErr != nil {
			return 0, readFault(ctx, err)
		}
	}
}
