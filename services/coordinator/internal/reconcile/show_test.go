package reconcile_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

func (w *world) show() (string, error) {
	v := topology.NewFollower(w.store, slog.New(slog.DiscardHandler), w.clock)
	if err := v.Refresh(w.ctx); err != nil {
		return "", err
	}
	view := v.View()
	var lines []string
	for name, id := range view.Names {
		lines = append(lines, fmt.Sprintf("name %s = %s", name, id))
	}
	for id, topic := range view.Topics {
		state := ""
		if topic.Value.Deleted != nil {
			state = " deleted"
		}
		lines = append(lines, fmt.Sprintf("topic %s %s partitions=%d rf=%d%s",
			id, topic.Value.Name, topic.Value.Partitions, topic.Value.ReplicationFactor, state))
	}
	for id, all := range view.Partitions {
		if len(all) > 20 {
			lines = append(lines, fmt.Sprintf("partitions %s: %d", id, len(all)))
			continue
		}
		for i, a := range all {
			lines = append(lines, describe(id, i, a.Value))
		}
	}
	slices.Sort(lines)
	if len(lines) == 0 {
		return "nothing\n", nil
	}
	return strings.Join(lines, "\n") + "\n", nil
}

func describe(topic partition.UUID, index int, a topology.Assignment) string {
	members := func(set []partition.Member) string {
		var ids []string
		for _, m := range set {
			ids = append(ids, strconv.FormatUint(uint64(m.Broker), 10))
		}
		return strings.Join(ids, ",")
	}
	line := fmt.Sprintf("partition %s/%02d epoch=%d %s leader=%d@%d members=%s base=%d:%s",
		topic, index, a.Epoch, a.Status, a.Leader.Broker, a.Leader.Incarnation, members(a.Members), a.Base.Epoch, members(a.Base.Members))
	if a.Learners != nil {
		line += " learners=" + members(a.Learners)
	}
	if a.Moving != nil {
		line += fmt.Sprintf(" to=%s:%s", members(a.Moving.Members), a.Moving.Why)
	}
	if !a.Lineage.IsZero() {
		line += " lineage=" + a.Lineage.String()
	}
	return line
}
