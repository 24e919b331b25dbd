package sq

import (
	"context"
	"fmt"
	"time"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// OffsetInfo says where a position is in a partition, and what is around it. All ranges are half-open.
type OffsetInfo struct {
	Partition int
	// Offset is the position that was asked for.
	Offset int64
	// LogStart is the first offset that can be read; from LocalStart on a broker has it on disk, below that the bucket has.
	LogStart, LocalStart int64
	// HighWatermark is behind the last committed record.
	HighWatermark int64
	Epoch         uint64
}

// ListOffsets asks where a position is. Earliest is the log start, Latest the high watermark, Time the first offset appended at or after
// it (the high watermark if there is none); an Offset is itself.
func (c *Client) ListOffsets(ctx context.Context, topic string, partition int, at Position) (OffsetInfo, error) {
	op := fmt.Sprintf("list offsets of %s/%d", topic, partition)
	state, err := c.topic(ctx, topic, false)
	if err != nil {
		return OffsetInfo{}, err
	}
	if err := state.check(partition); err != nil {
		return OffsetInfo{}, errorOf(op, err)
	}
	var info OffsetInfo
	err = c.retry(ctx, c.publish, op, func(ctx context.Context, conn *frame.Client) error {
		var err error
		info, err = listOffsets(ctx, conn, state, partition, at)
		return err
	})
	return info, err
}

// check refuses a partition that the topic does not have.
func (t *topicState) check(partition int) error {
	if partition < 0 || partition >= len(t.partitions) {
		return &Error{Kind: KindNotFound, Err: fmt.Errorf("topic has %d partitions, there is no %d", len(t.partitions), partition)}
	}
	return nil
}

func listOffsets(ctx context.Context, conn *frame.Client, state *topicState, partition int, at Position) (OffsetInfo, error) {
	reply, err := conn.Call(ctx, func(req wirecapnp.Request) error {
		list, err := req.NewListOffsets()
		if err != nil {
			return err
		}
		id, err := list.NewTopic()
		if err != nil {
			return err
		}
		id.SetHi(state.idHi)
		id.SetLo(state.idLo)
		list.SetPartition(uint32(partition))
		list.SetEpoch(state.partitions[partition].epoch)
		switch at := at.(type) {
		case Time:
			list.SetTime(batch.Micros(time.Time(at)))
		case Edge:
			if at == Latest {
				list.SetLatest()
			} else {
				list.SetEarliest()
			}
		default:
			list.SetLatest()
		}
		return nil
	})
	if err != nil {
		return OffsetInfo{}, err
	}
	defer reply.Release()
	out, err := reply.Response.ListOffsets()
	if err != nil {
		return OffsetInfo{}, unreadable(err)
	}
	info := OffsetInfo{
		Partition: partition, Offset: int64(out.Offset()), LogStart: int64(out.LogStart()), LocalStart: int64(out.LocalStart()),
		HighWatermark: int64(out.HighWatermark()), Epoch: out.Epoch(),
	}
	if asked, ok := at.(Offset); ok {
		info.Offset = int64(asked)
	}
	if min(info.Offset, info.LogStart, info.LocalStart, info.HighWatermark) < 0 {
		return OffsetInfo{}, unreadable(fmt.Errorf("an offset is above 2^63"))
	}
	return info, nil
}
