package sq

import (
	"context"
	"fmt"
	"time"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
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

// ListOffsets asks where a position is. Earliest is the log start, Latest the high watermark, Time the first offset appended at or after it
// (the high watermark if there is none); an Offset is itself.
func (c *Client) ListOffsets(ctx context.Context, topic string, partition int, at Position) (OffsetInfo, error) {
	state, err := c.metadata(ctx, topic)
	if err != nil {
		return OffsetInfo{}, err
	}
	if err := state.Check(partition); err != nil {
		return OffsetInfo{}, errorOf(fmt.Sprintf("list offsets of %s/%d", topic, partition), err)
	}
	return c.offsets(ctx, topic, state, partition, at)
}

func (c *Client) offsets(ctx context.Context, topic string, state *gateway.Topic, partition int, at Position) (OffsetInfo, error) {
	var place gateway.Place
	switch at := at.(type) {
	case Time:
		place.ByTime, place.Micros = true, batch.Micros(time.Time(at))
	case Edge:
		place.Latest = at == Latest
	}
	var got gateway.Offsets
	err := c.retry(ctx, c.publish, fmt.Sprintf("list offsets of %s/%d", topic, partition), func(ctx context.Context, conn *frame.Client) (err error) {
		got, err = gateway.ListOffsets(ctx, conn, state, partition, place)
		return err
	})
	if offset, ok := at.(Offset); ok {
		got.Offset = int64(offset)
	}
	return OffsetInfo{
		Partition: partition, Offset: got.Offset, LogStart: got.LogStart, LocalStart: got.LocalStart,
		HighWatermark: got.HighWatermark, Epoch: got.Epoch,
	}, err
}
