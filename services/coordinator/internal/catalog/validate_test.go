package catalog

import (
	"testing"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
)

// Replicas do not exchange compacted segments yet, so that several of a compacted topic are refused, at creation and by any alteration.
func TestCompactedTopicHasOneReplica(t *testing.T) {
	topic := settle(topology.Topic{Name: "users", Partitions: 1, Cleanup: topology.CleanupCompact, TierDisabled: true, ReplicationFactor: 1})
	if err := checkSettings(topic); err != nil {
		t.Errorf("one replica: %v", err)
	}
	topic.ReplicationFactor = 3
	if err := checkSettings(topic); !fault.Is(err, fault.Invalid) {
		t.Errorf("three replicas: %v", err)
	}
}
