package api

import (
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

// readTopic turns a message into settings. It refuses only what settings cannot hold; catalog checks the rest.
func readTopic(in *controlv1.Topic) (topology.Topic, error) {
	t := topology.Topic{
		Namespace: in.GetNamespace(), Name: in.GetTopic(),
		RetentionBytes: in.GetRetention().GetBytes(), LocalBytes: in.GetLocalRetention().GetBytes(),
		SegmentBytes: in.GetSegment().GetBytes(), TierDisabled: in.GetTier().GetDisabled(),
	}
	for _, number := range []struct {
		field string
		from  int32
		to    *uint32
	}{
		{"partitions", in.GetPartitions(), &t.Partitions},
		{"replicationFactor", in.GetReplicationFactor(), &t.ReplicationFactor},
		{"batchBytesMax", in.GetBatchBytesMax(), &t.BatchBytesMax},
	} {
		if number.from < 0 {
			return t, fault.Errorf(fault.Invalid, "%s: %d is negative", number.field, number.from)
		}
		*number.to = uint32(number.from)
	}
	for _, span := range []struct {
		field string
		from  *durationpb.Duration
		to    *topology.Duration
	}{
		{"retention.time", in.GetRetention().GetTime(), &t.RetentionTime},
		{"localRetention.time", in.GetLocalRetention().GetTime(), &t.LocalTime},
		{"segment.age", in.GetSegment().GetAge(), &t.SegmentAge},
		{"tier.maxLag", in.GetTier().GetMaxLag(), &t.TierMaxLag},
		{"compaction.tombstoneAge", in.GetCompaction().GetTombstoneAge(), &t.TombstoneAge},
	} {
		if err := span.from.CheckValid(); span.from != nil && err != nil {
			return t, fault.Errorf(fault.Invalid, "%s: %w", span.field, err)
		}
		*span.to = topology.Duration(span.from.AsDuration()) // out of range saturates
	}
	var err error
	t.Durability, err = readDurability(in.GetDurability())
	if err != nil {
		return t, err
	}
	switch in.GetCleanup() {
	case controlv1.Cleanup_CLEANUP_UNSPECIFIED, controlv1.Cleanup_CLEANUP_DELETE:
		return t, nil
	case controlv1.Cleanup_CLEANUP_COMPACT:
		t.Cleanup = topology.CleanupCompact
		return t, nil
	default:
		return t, fault.Errorf(fault.Invalid, "cleanup: %v is not legal: CLEANUP_DELETE or CLEANUP_COMPACT", in.GetCleanup())
	}
}

func readDurability(d controlv1.Durability) (topology.Durability, error) {
	switch d {
	case controlv1.Durability_DURABILITY_UNSPECIFIED:
		return "", nil
	case controlv1.Durability_DURABILITY_QUORUM:
		return topology.DurabilityQuorum, nil
	case controlv1.Durability_DURABILITY_RELAXED:
		return topology.DurabilityRelaxed, nil
	default:
		return "", fault.Errorf(fault.Invalid, "durability: %v is not legal: DURABILITY_QUORUM or DURABILITY_RELAXED", d)
	}
}

// writeTopic makes the message of a topic, with its partitions where a view is given.
func writeTopic(topic topology.Versioned[topology.Topic], v *topology.View) *controlv1.Topic {
	t := topic.Value
	out := &controlv1.Topic{
		Namespace: t.Namespace, Topic: t.Name,
		Partitions: int32(t.Partitions), ReplicationFactor: int32(t.ReplicationFactor), //nolint:gosec // bounded by catalog.
		Retention:      &controlv1.Retention{Time: span(t.RetentionTime), Bytes: t.RetentionBytes},
		LocalRetention: &controlv1.LocalRetention{Time: span(t.LocalTime), Bytes: t.LocalBytes},
		Durability:     controlv1.Durability_DURABILITY_QUORUM,
		Cleanup:        controlv1.Cleanup_CLEANUP_DELETE,
		Segment:        &controlv1.SegmentSettings{Bytes: t.SegmentBytes, Age: span(t.SegmentAge)},
		Tier:           &controlv1.TierSettings{Disabled: t.TierDisabled, MaxLag: span(t.TierMaxLag)},
		BatchBytesMax:  int32(t.BatchBytesMax), //nolint:gosec // bounded by catalog.
	}
	if t.Cleanup == topology.CleanupCompact {
		out.Cleanup = controlv1.Cleanup_CLEANUP_COMPACT
	}
	if t.TombstoneAge != 0 {
		out.Compaction = &controlv1.CompactionSettings{TombstoneAge: span(t.TombstoneAge)}
	}
	if t.Durability == topology.DurabilityRelaxed {
		out.Durability = controlv1.Durability_DURABILITY_RELAXED
	}
	if !t.ID.IsZero() {
		out.Id, out.CreateTime = t.ID.String(), timestamppb.New(t.Created)
		out.Etag = strconv.FormatInt(topic.ModRevision, 10)
	}
	if v != nil {
		for i, a := range v.Partitions[t.ID] {
			state := writePartition(i, a)
			if a.Value.Moving != nil {
				state.Move = writeMove(v, partition.ID{Topic: t.ID, Index: partition.Index(i)}, a.Value) //nolint:gosec // an index.
			}
			out.PartitionStates = append(out.PartitionStates, state)
		}
	}
	return out
}

func writePartition(index int, a topology.Versioned[topology.Assignment]) *controlv1.Partition {
	out := &controlv1.Partition{
		Partition: int32(index), Epoch: signed(uint64(a.Value.Epoch)), Leader: signed(uint64(a.Value.Leader.Broker)), //nolint:gosec // an index.
		Active: a.Value.Status == topology.Active,
	}
	out.Members, out.Learners = brokersOf(a.Value.Members), brokersOf(a.Value.Learners)
	if !a.Value.Lineage.IsZero() {
		out.Lineage = a.Value.Lineage.String()
	}
	return out
}

func span(d topology.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(time.Duration(d))
}

// signed is a number as the API has it; what does not fit saturates.
func signed(n uint64) int64 { return int64(min(n, math.MaxInt64)) } //nolint:gosec // bounded in place.
