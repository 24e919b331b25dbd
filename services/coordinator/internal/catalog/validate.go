package catalog

import (
	"strings"
	"time"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
)

// reservedPrefix of SQ's own topics.
const reservedPrefix = "_sq."

// CheckName refuses a name that no topic or namespace may have. field is what the caller calls it.
func CheckName(field, name string) error {
	const rule = "legal are 1 to 200 of a-z A-Z 0-9 . _ - that do not begin with a dot or with _sq."
	if name == "" {
		return fault.Errorf(fault.Invalid, "%s is empty: %s", field, rule)
	}
	if len(name) > NameBytesMax {
		return fault.Errorf(fault.Invalid, "%s is %d bytes long: %s", field, len(name), rule)
	}
	for i := range len(name) {
		if c := name[i]; !isNameByte(c) {
			return fault.Errorf(fault.Invalid, "%s %q has an illegal character at byte %d: %s", field, name, i, rule)
		}
	}
	if name[0] == '.' || strings.HasPrefix(name, reservedPrefix) {
		return fault.Errorf(fault.Invalid, "%s %q begins illegally: %s", field, name, rule)
	}
	return nil
}

func isNameByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}

// complete fills in the defaults of a new topic.
func complete(t topology.Topic, brokers []members.Broker, replicas int) topology.Topic {
	t.V, t.MapVersion = topology.SchemaVersion, 1
	if t.Partitions == 0 {
		t.Partitions = PartitionsDefault
	}
	if t.ReplicationFactor == 0 {
		t.ReplicationFactor = 1
		if takers(brokers) >= replicas {
			t.ReplicationFactor = uint32(replicas) //nolint:gosec // 1 or 3.
		}
	}
	return settle(t)
}

// settle fills in the defaults that also an alteration asks for with zero.
func settle(t topology.Topic) topology.Topic {
	if t.Durability == "" {
		t.Durability = topology.DurabilityQuorum
	}
	if t.SegmentBytes == 0 {
		t.SegmentBytes = SegmentBytesDefault
	}
	if t.SegmentAge == 0 {
		t.SegmentAge = topology.Duration(SegmentAgeDefault)
	}
	if t.BatchBytesMax == 0 {
		t.BatchBytesMax = BatchBytesMaxDefault
	}
	return t
}

// takers counts the brokers that new replicas may be placed on.
func takers(brokers []members.Broker) int {
	n := 0
	for _, b := range brokers {
		if b.Takes() {
			n++
		}
	}
	return n
}

// checkNew refuses a completed topic that cannot be created.
func checkNew(t topology.Topic, brokers []members.Broker) error {
	if err := CheckName("topic", t.Name); err != nil {
		return err
	}
	if err := CheckName("namespace", t.Namespace); err != nil {
		return err
	}
	if t.Partitions < 1 || t.Partitions > PartitionsMax {
		return outside("partitions", t.Partitions, 1, PartitionsMax)
	}
	if err := CheckFactor(t.ReplicationFactor, brokers); err != nil {
		return err
	}
	return checkSettings(t)
}

// CheckFactor refuses a replication factor that is not legal, or that the brokers cannot keep.
func CheckFactor(factor uint32, brokers []members.Broker) error {
	switch factor {
	case 1, 3, 5:
	default:
		return fault.Errorf(fault.Invalid, "replicationFactor: %d is not legal: 1, 3 or 5", factor)
	}
	able := takers(brokers)
	switch {
	case len(members.Live(brokers)) == 0:
		return fault.Errorf(fault.Unavailable, "no broker is live: start one, or try again when one is back")
	case int(factor) > able:
		return fault.Errorf(fault.Invalid, "replicationFactor: %d is more than the %d live brokers that take replicas: 1, 3 or 5 and at most those",
			factor, able)
	}
	return nil
}

// checkSettings refuses what neither a new nor an altered topic may have.
func checkSettings(t topology.Topic) error {
	switch t.Durability {
	case topology.DurabilityQuorum, topology.DurabilityRelaxed:
	default:
		return fault.Errorf(fault.Invalid, "durability: %q is not legal: quorum or relaxed", t.Durability)
	}
	switch t.Cleanup {
	case topology.CleanupDelete:
	case topology.CleanupCompact:
		if !t.TierDisabled {
			return fault.Errorf(fault.Invalid, "cleanup: a compacted topic cannot be in the bucket, whose objects never change: set tier.disabled too")
		}
		if t.ReplicationFactor > 1 {
			return fault.Errorf(fault.Invalid, "cleanup: a compacted topic has one replica: %d are not supported yet, set replicationFactor to 1",
				t.ReplicationFactor)
		}
	default:
		return fault.Errorf(fault.Invalid, "cleanup: %q is not legal: delete or compact", t.Cleanup)
	}
	if t.SegmentBytes < SegmentBytesMin || t.SegmentBytes > SegmentBytesMax {
		return outside("segment.bytes", t.SegmentBytes, SegmentBytesMin, SegmentBytesMax)
	}
	if t.BatchBytesMax < BatchBytesMin || t.BatchBytesMax > BatchBytesMax {
		return outside("batchBytesMax", t.BatchBytesMax, BatchBytesMin, BatchBytesMax)
	}
	for _, size := range []struct {
		field string
		bytes int64
	}{{"retention.bytes", t.RetentionBytes}, {"localRetention.bytes", t.LocalBytes}} {
		if size.bytes < 0 {
			return fault.Errorf(fault.Invalid, "%s: %d is negative: unset, or 1 and up", size.field, size.bytes)
		}
	}
	for _, span := range []struct {
		field string
		d     topology.Duration
	}{
		{"retention.time", t.RetentionTime},
		{"localRetention.time", t.LocalTime},
		{"segment.age", t.SegmentAge},
		{"tier.maxLag", t.TierMaxLag},
		{"compaction.tombstoneAge", t.TombstoneAge},
	} {
		if d := time.Duration(span.d); d != 0 && (d < DurationMin || d > DurationMax) {
			return fault.Errorf(fault.Invalid, "%s: %v is outside %v to %v (100 years)", span.field, d, DurationMin, DurationMax)
		}
	}
	return nil
}

func outside[T int | int64 | uint32](field string, got T, low, high int64) error {
	return fault.Errorf(fault.Invalid, "%s: %d is outside %d to %d", field, got, low, high)
}

// checkRequestID refuses an id that cannot be part of a key.
func checkRequestID(id string) error {
	if len(id) > RequestIDBytesMax {
		return fault.Errorf(fault.Invalid, "requestId: %d bytes are outside 0 to %d", len(id), RequestIDBytesMax)
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fault.Errorf(fault.Invalid, "requestId: byte %d is not a visible ASCII character", i)
		}
	}
	return nil
}
