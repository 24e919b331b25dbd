package records

import (
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/fault/faultwire"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/cursor"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// fetched is the answer of a broker or tierer, with its memory.
type fetched struct {
	body          []byte
	epoch         partition.Epoch
	next          partition.Offset
	highWatermark partition.Offset
	cold          bool
	reply         *frame.Reply
}

func (f *fetched) release() { f.reply.Release() }

// fetch asks for one position.
func (r *reading) fetch(ctx context.Context, p cursor.Position, maxBytes uint32, wait time.Duration) (*fetched, error) {
	return fetchOne(ctx, r.reader, upstream.Fetch{
		Partition: partition.ID{Topic: r.topic.ID, Index: p.Partition}, Offset: p.Offset, Epoch: p.Epoch, MaxBytes: maxBytes, Wait: wait,
	})
}

// fetchSoon asks for what is there. One of several positions that has no answer soon must not hold up the others.
func (r *reading) fetchSoon(ctx context.Context, p cursor.Position, maxBytes uint32) (*fetched, error) {
	if len(r.at.Positions) == 1 {
		return r.fetch(ctx, p, maxBytes, 0)
	}
	short, cancel := context.WithTimeout(ctx, 2*r.service.cfg.Limits.Slice)
	defer cancel()
	f, err := r.fetch(short, p, maxBytes, 0)
	if fault.Is(err, fault.DeadlineExceeded) && ctx.Err() == nil {
		err = fault.Errorf(fault.Unavailable, "read partition %d: %w", p.Partition, err)
	}
	return f, err
}

func fetchOne(ctx context.Context, reader *upstream.Caller, what upstream.Fetch) (*fetched, error) {
	reply, cold, err := reader.Fetch(ctx, what)
	if err != nil {
		return nil, err //nolint:wrapcheck // a fault.
	}
	in, err := reply.Response.Fetch()
	if err != nil {
		reply.Release()
		return nil, fault.Errorf(fault.Internal, "read the broker's answer: %w", err)
	}
	return &fetched{
		body: reply.Body, epoch: partition.Epoch(in.Epoch()), next: partition.Offset(in.NextOffset()),
		highWatermark: partition.Offset(in.HighWatermark()), cold: cold, reply: reply,
	}, nil
}

// Keys of an error's details.
const (
	detailPartition = "partition"
	detailCursor    = "cursor"
)

// explain says which partition an error is about and, where records are gone, gives a cursor that goes on behind them.
func (r *reading) explain(position int, err error) error {
	if fault.Is(err, fault.OffsetTrimmed) || fault.Is(err, fault.Corrupt) {
		if f, ok := errors.AsType[*fault.Error](err); ok && partition.Offset(f.Offset) > r.at.Positions[position].Offset {
			return r.lost(position, partition.Offset(f.Offset), err)
		}
	}
	return detailed(err, map[string]string{detailPartition: r.name(position)})
}

// damaged is the error of a batch that cannot be read; next is behind it.
func (r *reading) damaged(position int, next partition.Offset, err error) error {
	p := r.at.Positions[position]
	return r.lost(position, max(next, p.Offset+1), fault.Errorf(fault.Corrupt, "read partition %d at offset %d: %w", p.Partition, p.Offset, err))
}

func (r *reading) lost(position int, next partition.Offset, err error) error {
	behind := r.at.Clone()
	behind.Positions[position].Offset = next
	return detailed(err, map[string]string{detailPartition: r.name(position), detailCursor: r.service.sealer().Seal(behind)})
}

func (r *reading) name(position int) string {
	return strconv.FormatUint(uint64(r.at.Positions[position].Partition), 10)
}

// detailed adds to the details of an error.
func detailed(err error, more map[string]string) error {
	st := faultwire.ToStatus(err)
	out := status.New(st.Code(), st.Message())
	for _, detail := range st.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			added := &errdetails.ErrorInfo{Reason: info.GetReason(), Domain: info.GetDomain(), Metadata: map[string]string{}}
			maps.Copy(added.GetMetadata(), info.GetMetadata())
			maps.Copy(added.GetMetadata(), more)
			if with, err := out.WithDetails(added); err == nil {
				return with.Err()
			}
		}
	}
	return err
}

// GetRecord implements datav1.DataServiceServer.
func (s *Service) GetRecord(ctx context.Context, req *datav1.GetRecordRequest) (*datav1.Record, error) {
	topic, err := s.topic(ctx, req.GetNamespace(), req.GetTopic(), nil)
	if err != nil {
		return nil, err
	}
	id, err := partitionOf(topic, req.GetPartition())
	if err != nil {
		return nil, err
	}
	if req.GetOffset() < 0 {
		return nil, fault.Errorf(fault.Invalid, "offset: %d is negative", req.GetOffset())
	}
	reader, done := s.reader()
	defer done(true)
	f, err := fetchOne(ctx, reader, upstream.Fetch{Partition: id, Offset: partition.Offset(req.GetOffset()), MaxBytes: 1})
	if err != nil {
		return nil, err
	}
	defer f.release()
	at := cursor.Cursor{Topic: topic.ID, Positions: []cursor.Position{{Partition: id.Index, Offset: partition.Offset(req.GetOffset())}}}
	r := reading{service: s, at: at, ends: make([]bool, 1), maxRecords: 1, maxBytes: 1}
	if err := r.take(0, f); err != nil {
		return nil, err
	}
	switch {
	case len(r.records) == 1 && r.records[0].GetOffset() == req.GetOffset():
		return r.records[0], nil
	case len(r.records) == 0 && f.next <= partition.Offset(req.GetOffset()):
		return nil, &fault.Error{
			Kind: fault.OffsetOutOfRange, Offset: uint64(f.highWatermark),
			Err: fault.Errorf(fault.OffsetOutOfRange, "read offset %d: partition %d ends at %d", req.GetOffset(), id.Index, f.highWatermark),
		}
	default:
		return nil, fault.Errorf(fault.NotFound, "read offset %d: it holds no record; control records take offsets, too", req.GetOffset())
	}
}
