package records

import (
	"context"
	"math"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// Words of FetchRequest.from.
const (
	fromEarliest = "earliest"
	fromLatest   = "latest"
)

// position gives where a Fetch begins: at its cursor, or where `from` says.
func (s *Service) position(ctx context.Context, reader *upstream.Caller, topic topology.Topic, req *datav1.FetchRequest) (cursor.Cursor, error) {
	if req.GetCursor() != "" {
		return s.open(topic, req.GetCursor())
	}
	ids, err := chosen(topic, req.Partition)
	if err != nil {
		return cursor.Cursor{}, err
	}
	from, err := parseFrom(req.GetFrom())
	if err != nil {
		return cursor.Cursor{}, err
	}
	at := cursor.Cursor{Topic: topic.ID, Positions: make([]cursor.Position, len(ids))}
	if from.offset != nil {
		if req.Partition == nil {
			return cursor.Cursor{}, fault.Errorf(fault.Invalid, "from: an offset needs a partition")
		}
		at.Positions[0] = cursor.Position{Partition: ids[0].Index, Offset: *from.offset}
		return at, nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.cfg.Limits.Parallel)
	for i, id := range ids {
		group.Go(func() error {
			found, err := reader.ListOffsets(ctx, id, 0, from.at)
			if err != nil {
				return err //nolint:wrapcheck // a fault.
			}
			at.Positions[i] = cursor.Position{Partition: id.Index, Offset: found.Offset, Epoch: found.Epoch}
			return nil
		})
	}
	return at, group.Wait() //nolint:wrapcheck // a fault.
}

// open reads a cursor of this topic.
func (s *Service) open(topic topology.Topic, text string) (cursor.Cursor, error) {
	at, err := s.sealer().Open(text)
	if err != nil {
		return cursor.Cursor{}, err //nolint:wrapcheck // a fault.
	}
	if at.Topic != topic.ID {
		return cursor.Cursor{}, fault.Errorf(fault.Conflict, "read cursor: it is of another topic, or of one that was deleted; topic %s is %s", topic.FullName(), topic.ID)
	}
	for _, p := range at.Positions {
		if uint32(p.Partition) >= topic.Partitions {
			return cursor.Cursor{}, fault.Errorf(fault.Invalid, "read cursor: topic %s has no partition %d", topic.FullName(), p.Partition)
		}
	}
	return at, nil
}

// chosen gives the partition that was named, or all.
func chosen(topic topology.Topic, index *int32) ([]partition.ID, error) {
	if index != nil {
		id, err := partitionOf(topic, *index)
		return []partition.ID{id}, err
	}
	if topic.Partitions > cursor.PositionsMax {
		return nil, fault.Errorf(fault.Invalid, "partition: topic %s has %d partitions; one reader takes %d: name a partition",
			topic.FullName(), topic.Partitions, cursor.PositionsMax)
	}
	ids := make([]partition.ID, topic.Partitions)
	for i := range ids {
		ids[i] = partition.ID{Topic: topic.ID, Index: partition.Index(i)}
	}
	return ids, nil
}

// from is where to begin: an offset, or what ListOffsets is to find.
type from struct {
	offset *partition.Offset
	at     upstream.At
}

func parseFrom(text string) (from, error) {
	switch text {
	case "", fromEarliest:
		return from{at: upstream.At{Earliest: true}}, nil
	case fromLatest:
		return from{at: upstream.At{Latest: true}}, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil && n <= math.MaxInt64 {
		offset := partition.Offset(n)
		return from{offset: &offset}, nil
	}
	if at, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return from{at: upstream.At{Time: batch.Micros(at)}}, nil
	}
	return from{}, fault.Errorf(fault.Invalid, "from: %.64q is neither earliest, latest, an offset nor an RFC 3339 time", text)
}
