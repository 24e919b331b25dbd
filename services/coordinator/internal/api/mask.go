package api

import (
	"maps"
	"slices"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

// setter copies a setting.
type setter func(to, from *topology.Topic)

// setters by the field mask's path. A message's path stands for all below it.
func setters() map[string]setter {
	return map[string]setter{
		"partitions":               func(to, from *topology.Topic) { to.Partitions = from.Partitions },
		"replication_factor":       func(to, from *topology.Topic) { to.ReplicationFactor = from.ReplicationFactor },
		"retention.time":           func(to, from *topology.Topic) { to.RetentionTime = from.RetentionTime },
		"retention.bytes":          func(to, from *topology.Topic) { to.RetentionBytes = from.RetentionBytes },
		"local_retention.time":     func(to, from *topology.Topic) { to.LocalTime = from.LocalTime },
		"local_retention.bytes":    func(to, from *topology.Topic) { to.LocalBytes = from.LocalBytes },
		"durability":               func(to, from *topology.Topic) { to.Durability = from.Durability },
		"cleanup":                  func(to, from *topology.Topic) { to.Cleanup = from.Cleanup },
		"segment.bytes":            func(to, from *topology.Topic) { to.SegmentBytes = from.SegmentBytes },
		"segment.age":              func(to, from *topology.Topic) { to.SegmentAge = from.SegmentAge },
		"tier.disabled":            func(to, from *topology.Topic) { to.TierDisabled = from.TierDisabled },
		"tier.max_lag":             func(to, from *topology.Topic) { to.TierMaxLag = from.TierMaxLag },
		"compaction.tombstone_age": func(to, from *topology.Topic) { to.TombstoneAge = from.TombstoneAge },
		"batch_bytes_max":          func(to, from *topology.Topic) { to.BatchBytesMax = from.BatchBytesMax },
	}
}

// masked gives the setters that an update mask names. Without a mask everything that the message sets is meant; "*" is everything.
func masked(paths []string, t *controlv1.Topic) ([]setter, error) {
	if len(paths) == 0 {
		paths = populated(t)
	}
	all := setters()
	var chosen []setter
	for _, path := range paths {
		found := 0
		for _, name := range slices.Sorted(maps.Keys(all)) {
			inside := path == "*" && name != "partitions" && name != "replication_factor" // which are no settings
			if inside || name == path || strings.HasPrefix(name, path+".") || strings.HasPrefix(path, name+".") {
				chosen = append(chosen, all[name])
				found++
			}
		}
		if found == 0 && !identifies(path) {
			return nil, fault.Errorf(fault.Invalid, "updateMask: %q is not legal: %s", path, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
		}
	}
	return chosen, nil
}

// identifies tells whether a path names what finds the topic, or what SQ sets; a REST body that was read and is sent back has them all.
func identifies(path string) bool {
	switch path, _, _ := strings.Cut(path, "."); path {
	case "namespace", "topic", "id", "etag", "create_time", "partition_states":
		return true
	default:
		return false
	}
}

// populated names what a message sets.
func populated(t *controlv1.Topic) []string {
	var paths []string
	for path, set := range map[string]bool{
		"partitions":               t.GetPartitions() != 0,
		"replication_factor":       t.GetReplicationFactor() != 0,
		"retention.time":           t.GetRetention().GetTime() != nil,
		"retention.bytes":          t.GetRetention().GetBytes() != 0,
		"local_retention.time":     t.GetLocalRetention().GetTime() != nil,
		"local_retention.bytes":    t.GetLocalRetention().GetBytes() != 0,
		"durability":               t.GetDurability() != 0,
		"cleanup":                  t.GetCleanup() != 0,
		"compaction.tombstone_age": t.GetCompaction().GetTombstoneAge() != nil,
		"segment.bytes":            t.GetSegment().GetBytes() != 0,
		"segment.age":              t.GetSegment().GetAge() != nil,
		"tier.disabled":            t.GetTier().GetDisabled(),
		"tier.max_lag":             t.GetTier().GetMaxLag() != nil,
		"batch_bytes_max":          t.GetBatchBytesMax() != 0,
	} {
		if set {
			paths = append(paths, path)
		}
	}
	return paths
}
