package command

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seedqueue/sq/cli/internal/value"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

// topicSettings are the flags of create and alter.
type topicSettings struct {
	retention, local, segmentAge, maxLag, tombstoneAge   time.Duration
	retentionBytes, localBytes, segmentBytes, batchBytes int64
	durability, cleanup                                  string
	noTier                                               bool
}

func (s *topicSettings) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.Var(value.Span{To: &s.retention}, "retention", "delete records older than this; 0s = never")
	f.Var(value.Bytes{To: &s.retentionBytes}, "retention-bytes", "delete the oldest records of a partition above this size; 0 = never")
	f.Var(value.Span{To: &s.local}, "local-retention", "keep records of this age on the brokers' disks, although the bucket has them")
	f.Var(value.Bytes{To: &s.localBytes}, "local-retention-bytes", "keep this much of a partition on the brokers' disks, although the bucket has it")
	f.Var(value.Bytes{To: &s.segmentBytes}, "segment-bytes", "size at which a segment is closed, 64KiB to 1GiB; 0 = 128MiB")
	f.Var(value.Span{To: &s.segmentAge}, "segment-age", "age at which a segment is closed; 0s = 1h")
	f.Var(value.Span{To: &s.maxLag}, "tier-max-lag", "seal early, so that the bucket is at most this far behind; 0s = off")
	f.Var(value.OneOf{To: &s.cleanup, Legal: []string{"delete", "compact"}}, "cleanup",
		"delete (by retention only) or compact (keep the newest record of each key, on the brokers only)")
	f.Var(value.Span{To: &s.tombstoneAge}, "tombstone-age", "with --cleanup compact: how long a null value stays; 0s = 24h")
	f.BoolVar(&s.noTier, "no-tier", false, "keep everything on the brokers only")
	f.Var(value.OneOf{To: &s.durability, Legal: []string{"quorum", "relaxed"}}, "durability", "what an ack means: quorum (fsynced by a majority) or relaxed (written by a majority)")
	f.Var(value.Bytes{To: &s.batchBytes}, "batch-bytes", "largest batch, 1KiB to 8MiB; 0 = 1MiB")
}

// topic gives what the flags say, and the field mask of those that were named.
func (s *topicSettings) topic(cmd *cobra.Command) (*controlv1.Topic, []string) {
	t := &controlv1.Topic{
		Retention: &controlv1.Retention{}, LocalRetention: &controlv1.LocalRetention{},
		Segment: &controlv1.SegmentSettings{}, Tier: &controlv1.TierSettings{},
	}
	var paths []string
	for _, setting := range []struct {
		flag, path string
		set        func()
	}{
		{"retention", "retention.time", func() { t.Retention.Time = unsetZero(s.retention) }},
		{"retention-bytes", "retention.bytes", func() { t.Retention.Bytes = s.retentionBytes }},
		{"local-retention", "local_retention.time", func() { t.LocalRetention.Time = unsetZero(s.local) }},
		{"local-retention-bytes", "local_retention.bytes", func() { t.LocalRetention.Bytes = s.localBytes }},
		{"segment-bytes", "segment.bytes", func() { t.Segment.Bytes = s.segmentBytes }},
		{"segment-age", "segment.age", func() { t.Segment.Age = unsetZero(s.segmentAge) }},
		{"tier-max-lag", "tier.max_lag", func() { t.Tier.MaxLag = unsetZero(s.maxLag) }},
		{"no-tier", "tier.disabled", func() { t.Tier.Disabled = s.noTier }},
		{"cleanup", "cleanup", func() { t.Cleanup = controlv1.Cleanup_CLEANUP_DELETE }},
		{"tombstone-age", "compaction.tombstone_age", func() { t.Compaction = &controlv1.CompactionSettings{TombstoneAge: unsetZero(s.tombstoneAge)} }},
		{"durability", "durability", func() { t.Durability = controlv1.Durability_DURABILITY_QUORUM }},
		{"batch-bytes", "batch_bytes_max", func() { t.BatchBytesMax = int32(min(s.batchBytes, 1<<31-1)) }},
	} {
		if cmd.Flags().Changed(setting.flag) {
			setting.set()
			paths = append(paths, setting.path)
		}
	}
	if s.cleanup == "compact" {
		t.Cleanup = controlv1.Cleanup_CLEANUP_COMPACT
		if !cmd.Flags().Changed("no-tier") {
			t.Tier.Disabled = true // the one way to have it
			paths = append(paths, "tier.disabled")
		}
	}
	if s.durability == "relaxed" {
		t.Durability = controlv1.Durability_DURABILITY_RELAXED
	}
	return t, paths
}

func unsetZero(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
