package records

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	datav1 "github.com/seedqueue/sq/proto/gen/sq/data/v1"
	"github.com/seedqueue/sq/services/gateway/internal/upstream"
)

// KeyMetadata is the gRPC metadata key, and in lower case the HTTP header, of an Idempotency-Key.
const KeyMetadata = "idempotency-key"

// Publish implements datav1.DataServiceServer.
func (s *Service) Publish(ctx context.Context, req *datav1.PublishRequest) (*datav1.PublishResponse, error) {
	key, err := s.idempotencyKey(ctx, req)
	if err != nil {
		return nil, err
	}
	if n := len(req.GetRecords()); n < 1 || n > s.cfg.Limits.Records {
		return nil, fault.Errorf(fault.Invalid, "records: there are %d; a request has 1 to %d", n, s.cfg.Limits.Records)
	}
	now := s.cfg.Clock.Now()
	if key != "" {
		now = repeatable(req.GetRecords(), now)
	}
	records := make([]batch.Record, len(req.GetRecords()))
	for i, in := range req.GetRecords() {
		if records[i], err = fromNew(in, now); err != nil {
			return nil, badRecord(i, err)
		}
	}
	topic, err := s.topic(ctx, req.GetNamespace(), req.GetTopic(), s.cfg.Creator)
	if err != nil {
		return nil, err
	}
	place, err := s.place(topic, req, key)
	if err != nil {
		return nil, err
	}
	batches, err := plan(topic, records, place, batch.DedupeKeyOf(key))
	if err != nil {
		return nil, err
	}
	return s.send(ctx, batches, len(records), key != "")
}

// idempotencyKey reads the key; the header wins over the field.
func (s *Service) idempotencyKey(ctx context.Context, req *datav1.PublishRequest) (string, error) {
	key := req.GetIdempotencyKey()
	if values := metadata.ValueFromIncomingContext(ctx, KeyMetadata); len(values) > 0 {
		for _, value := range values[1:] {
			if value != values[0] {
				return "", fault.Errorf(fault.Invalid, "Idempotency-Key: it is given %d times with different values", len(values))
			}
		}
		key = values[0]
	}
	if len(key) > s.cfg.Limits.KeyBytes || !utf8.ValidString(key) {
		return "", fault.Errorf(fault.Invalid, "Idempotency-Key: it must be text of at most %d bytes", s.cfg.Limits.KeyBytes)
	}
	return key, nil
}

// place says where records go (doc.go 2), and whether by their key.
func (s *Service) place(topic topology.Topic, req *datav1.PublishRequest, key string) (func(batch.Record) (partition.Index, bool), error) {
	if req.Partition != nil {
		id, err := partitionOf(topic, req.GetPartition())
		return func(batch.Record) (partition.Index, bool) { return id.Index, false }, err
	}
	partitions := int(topic.Partitions)
	other := s.next(topic)
	if key != "" {
		other = partition.Index(batch.PartitionOfHash(batch.KeyHash([]byte(key)), partitions))
	}
	return func(rec batch.Record) (partition.Index, bool) {
		if rec.Key == nil {
			return other, false
		}
		return partition.Index(batch.PartitionOfHash(batch.KeyHash(rec.Key), partitions)), true
	}, nil
}

// next gives the partition for a request without keys: the next one that has a leader, else the next one.
func (s *Service) next(topic topology.Topic) partition.Index {
	table := s.cfg.Router.Table()
	first := s.spread.Add(1) % topic.Partitions
	for i := range topic.Partitions {
		id := partition.ID{Topic: topic.ID, Index: partition.Index((first + i) % topic.Partitions)}
		if _, err := table.Leader(id); err == nil {
			return id.Index
		}
	}
	return partition.Index(first)
}

// sent is what became of a batch.
type sent struct {
	planned
	answer upstreamAck
	err    error
}

type upstreamAck struct {
	base       uint64
	known      bool
	duplicate  bool
	durability wirecapnp.Durability
}

// send publishes the batches, those of a partition in order, and gathers the results.
func (s *Service) send(ctx context.Context, batches []planned, records int, idempotent bool) (*datav1.PublishResponse, error) {
	results := make([]sent, len(batches))
	var wait sync.WaitGroup
	wait.Add(2 * len(batches))
	for i, b := range batches {
		results[i].planned = b
		s.cfg.Publish.Submit(ctx, upstream.Publish{
			Partition: b.partition, Body: b.body, Repeatable: idempotent,
			Done: func(reply *frame.Reply, err error) {
				defer wait.Done()
				results[i].answer, results[i].err = readAck(reply, err)
			},
			Free: wait.Done,
		})
	}
	wait.Wait()
	return respond(results, records, idempotent)
}

func readAck(reply *frame.Reply, err error) (upstreamAck, error) {
	if err != nil {
		return upstreamAck{}, err
	}
	defer reply.Release()
	ack, err := reply.Response.Publish()
	if err != nil {
		return upstreamAck{}, &fault.Error{Kind: fault.OutcomeUnknown, Op: "read the broker's answer", Err: err}
	}
	return upstreamAck{base: ack.BaseOffset(), known: ack.OffsetKnown(), duplicate: ack.Duplicate(), durability: ack.Durability()}, nil
}

// respond gives the result of each record, or the error that all share where none was stored.
func respond(results []sent, records int, idempotent bool) (*datav1.PublishResponse, error) {
	out := &datav1.PublishResponse{Results: make([]*datav1.PublishResult, records)}
	weakest := wirecapnp.Durability_fsyncQuorum
	stored, alike := false, true
	for _, r := range results {
		if r.err == nil {
			stored = true
			weakest = min(weakest, r.answer.durability)
		}
		alike = alike && r.err != nil && fault.KindOf(r.err) == fault.KindOf(results[0].err)
		for j, i := range r.records {
			out.Results[i] = r.result(j, idempotent)
		}
	}
	if alike {
		return nil, results[0].err
	}
	if stored {
		out.Durability = durabilityName(weakest)
	}
	return out, nil
}

// result of the j-th record of a batch.
func (r *sent) result(j int, idempotent bool) *datav1.PublishResult {
	out := &datav1.PublishResult{Partition: int32(r.partition.Index), Duplicate: r.answer.duplicate}
	if r.err != nil {
		kind := fault.KindOf(r.err)
		out.Error = &datav1.PublishError{
			Reason: kind.Reason(), Message: r.err.Error(), Retryable: kind.Retryable() || idempotent && kind == fault.OutcomeUnknown,
		}
		return out
	}
	if r.answer.known {
		out.Offset = proto.Int64(int64(r.answer.base) + int64(j))
	}
	return out
}

// durabilityName is how a durability is printed everywhere.
func durabilityName(d wirecapnp.Durability) string {
	switch d {
	case wirecapnp.Durability_fsyncQuorum:
		return "fsync-quorum"
	case wirecapnp.Durability_writtenQuorum:
		return "written-quorum"
	default:
		return "none"
	}
}

// repeatable gives the time of records that carry none: the first that is given, so that a request sent again with its Idempotency-Key has
// the same contents; if none is given it does not become part of them.
func repeatable(records []*datav1.NewRecord, now time.Time) time.Time {
	for _, rec := range records {
		if rec.GetTimestamp() != nil {
			return rec.GetTimestamp().AsTime()
		}
	}
	return now
}
