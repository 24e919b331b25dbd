package records

import (
	"errors"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
)

// hashBytes is what a key hash takes of a batch; marginBytes is for the columns' ends.
const (
	hashBytes   = 8
	marginBytes = 32
)

// planned is a batch of a plan and which records of the request it holds.
type planned struct {
	partition partition.ID
	body      []byte
	records   []int
}

// share is what a request has for one partition.
type share struct {
	id      partition.ID
	records []int
	keyed   bool
}

// plan cuts a request into batches, in the order of its records within each partition. The error is about the request and nothing is
// stored yet.
func plan(topic topology.Topic, records []batch.Record, place func(batch.Record) (partition.Index, bool), key batch.Key128) ([]planned, error) {
	shares := []*share{}
	byPartition := map[partition.Index]*share{}
	for i, rec := range records {
		index, keyed := place(rec)
		s := byPartition[index]
		if s == nil {
			s = &share{id: partition.ID{Topic: topic.ID, Index: index}}
			byPartition[index] = s
			shares = append(shares, s)
		}
		s.records = append(s.records, i)
		s.keyed = s.keyed || keyed
	}
	batches := []planned{}
	var builder batch.Builder
	for _, s := range shares {
		cut, err := s.build(topic, records, key, &builder)
		if err != nil {
			return nil, err
		}
		batches = append(batches, cut...)
	}
	return batches, nil
}

// build cuts a share into batches.
func (s *share) build(topic topology.Topic, records []batch.Record, key batch.Key128, builder *batch.Builder) ([]planned, error) {
	options := batch.BuildOptions{DedupeKey: key, MaxBytes: int(topic.BatchBytesMax)}
	limit := int(topic.BatchBytesMax)
	if s.keyed {
		options.MapVersion, options.KeyHashes = topic.MapVersion, true
		limit -= hashBytes*len(s.records) + marginBytes
	}
	batches := []planned{}
	current := planned{partition: s.id}
	flush := func() error {
		body, err := builder.Build(nil, options)
		if err != nil {
			return fault.Errorf(fault.Internal, "build batch: %w", err)
		}
		current.body = body
		batches = append(batches, current)
		current = planned{partition: s.id}
		builder.Reset()
		return nil
	}
	builder.Reset()
	builder.Limit = max(limit, batch.MinBytes)
	for _, i := range s.records {
		err := builder.Add(records[i])
		if errors.Is(err, batch.ErrFull) {
			if !key.IsZero() {
				return nil, fault.Errorf(fault.TooLarge, "publish: with an Idempotency-Key the records of a partition must fit into one batch of %d bytes: send fewer", topic.BatchBytesMax)
			}
			if err := flush(); err != nil {
				return nil, err
			}
			err = builder.Add(records[i])
		}
		if err != nil {
			return nil, badRecord(i, err)
		}
		current.records = append(current.records, i)
	}
	if err := flush(); err != nil {
		return nil, err
	}
	return batches, nil
}

// badRecord names the record that is wrong.
func badRecord(i int, err error) error {
	kind := fault.Invalid
	if _, ok := errors.AsType[*batch.TooLargeError](err); ok {
		kind = fault.TooLarge
	}
	return fault.Errorf(kind, "records[%d]: %w", i, err)
}
