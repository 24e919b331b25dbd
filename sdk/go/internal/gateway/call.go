package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// Place says which offset a ListOffsets call asks for.
type Place struct {
	Latest bool
	// Micros, where ByTime: the first offset appended at or after it, microseconds since 1970.
	Micros int64
	ByTime bool
}

// What is tried again is told to debuggers only, until it has failed so often that whoever watches must hear why nothing happens; with the
// usual pauses that is after 2 s, and then about once a minute.
const (
	warnFirst = 7
	warnEvery = 30
)

// RetryLevel gives the level to log the n-th failure in a row at, n ≥ 1.
func RetryLevel(n int) slog.Level {
	if n >= warnFirst && (n-warnFirst)%warnEvery == 0 {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Offsets are those around a partition's log.
type Offsets struct {
	Offset, LogStart, LocalStart, HighWatermark int64
	Epoch                                       uint64
}

// ListOffsets asks where a place is.
func ListOffsets(ctx context.Context, conn *frame.Client, topic *Topic, partition int, at Place) (Offsets, error) {
	reply, err := conn.Call(ctx, func(req wirecapnp.Request) error {
		list, err := req.NewListOffsets()
		if err != nil {
			return err
		}
		list.SetPartition(uint32(partition))
		list.SetEpoch(topic.Partitions[partition].Epoch)
		switch {
		case at.ByTime:
			list.SetTime(at.Micros)
		case at.Latest:
			list.SetLatest()
		default:
			list.SetEarliest()
		}
		return topic.Write(list.NewTopic())
	})
	if err != nil {
		return Offsets{}, err
	}
	defer reply.Release()
	out, err := reply.Response.ListOffsets()
	if err != nil {
		return Offsets{}, fault.Unreadable(err)
	}
	offsets := Offsets{
		Offset: int64(out.Offset()), LogStart: int64(out.LogStart()), LocalStart: int64(out.LocalStart()),
		HighWatermark: int64(out.HighWatermark()), Epoch: out.Epoch(),
	}
	if min(offsets.Offset, offsets.LogStart, offsets.LocalStart, offsets.HighWatermark) < 0 {
		return Offsets{}, fault.Unreadable(errors.New("an offset is above 2^63"))
	}
	return offsets, nil
}

// InitProducer asks for the id of a new producer.
func InitProducer(ctx context.Context, conn *frame.Client) (uint64, error) {
	reply, err := conn.Call(ctx, func(req wirecapnp.Request) error {
		_, err := req.NewInitProducer()
		return err
	})
	if err != nil {
		return 0, err
	}
	defer reply.Release()
	out, err := reply.Response.InitProducer()
	if err != nil {
		return 0, fault.Unreadable(err)
	}
	if out.ProducerId() == 0 {
		return 0, fault.Unreadable(errors.New("producer id 0"))
	}
	return out.ProducerId(), nil
}

// Fetch is a request for the batches of a partition from an offset on.
type Fetch struct {
	Topic      *Topic
	Partition  int
	Offset     int64
	Epoch      uint64 // highest seen
	MaxBytes   int
	WaitMillis int64
}

// Fetched is the answer to a Fetch.
type Fetched struct {
	// Reply has the batches in its Body. Release it.
	Reply                         *frame.Reply
	Next, HighWatermark, LogStart int64
	Epoch                         uint64
	Durability                    wirecapnp.Durability
}

// Do makes the call.
func (f *Fetch) Do(ctx context.Context, conn *frame.Client) (Fetched, error) {
	reply, err := conn.Call(ctx, f.fill)
	if err != nil {
		return Fetched{}, err
	}
	out, err := reply.Response.Fetch()
	if err == nil && (int64(out.NextOffset()) < f.Offset || int64(out.HighWatermark()) < 0 || int64(out.LogStart()) < 0) {
		err = fmt.Errorf("next offset %d, asked for %d", out.NextOffset(), f.Offset)
	}
	if err != nil {
		reply.Release()
		return Fetched{}, fault.Unreadable(err)
	}
	return Fetched{
		Reply: reply, Next: int64(out.NextOffset()), HighWatermark: int64(out.HighWatermark()), LogStart: int64(out.LogStart()),
		Epoch: out.Epoch(), Durability: out.Durability(),
	}, nil
}

func (f *Fetch) fill(req wirecapnp.Request) error {
	fetch, err := req.NewFetch()
	if err != nil {
		return err
	}
	fetch.SetPartition(uint32(f.Partition))
	fetch.SetOffset(uint64(f.Offset))
	fetch.SetEpoch(f.Epoch)
	fetch.SetMaxBytes(uint32(f.MaxBytes))
	fetch.SetWaitMillis(uint32(f.WaitMillis))
	return f.Topic.Write(fetch.NewTopic())
}
