package sheet

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seedqueue/sq/libs/config"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

func table(out io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(out, 0, 0, 2, ' ', 0) }

// brokers lists ids.
func brokers(ids []int64) string {
	if len(ids) == 0 {
		return "-"
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatInt(id, 10)
	}
	return strings.Join(texts, ",")
}

// Topics prints a line for each.
func Topics(out io.Writer, all []*controlv1.Topic) error {
	w := table(out)
	fmt.Fprintln(w, "TOPIC\tPARTITIONS\tREPLICAS\tDURABILITY\tRETENTION")
	for _, t := range all {
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\n", t.GetTopic(), t.GetPartitions(), t.GetReplicationFactor(), durability(t), retention(t))
	}
	return w.Flush() //nolint:wrapcheck // of the output.
}

// Topic prints a topic with its partitions and their replicas.
func Topic(out io.Writer, t *controlv1.Topic) error {
	w := table(out)
	for _, line := range [][2]string{
		{"topic", t.GetTopic()},
		{"namespace", t.GetNamespace()},
		{"id", t.GetId()},
		{"created", t.GetCreateTime().AsTime().Local().Format(time.RFC3339)},
		{"partitions", fmt.Sprint(t.GetPartitions())},
		{"replicas", fmt.Sprint(t.GetReplicationFactor())},
		{"durability", durability(t)},
		{"cleanup", cleanup(t)},
		{"retention", retention(t)},
		{"local retention", keep(t.GetLocalRetention().GetTime(), t.GetLocalRetention().GetBytes(), "the newest 1GiB or 1h of what the bucket has")},
		{"segments", keep(t.GetSegment().GetAge(), t.GetSegment().GetBytes(), "")},
		{"bucket", tier(t)},
		{"largest batch", Size(int64(t.GetBatchBytesMax()))},
		{"etag", t.GetEtag()},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	if err := w.Flush(); err != nil {
		return err //nolint:wrapcheck // of the output.
	}
	if len(t.GetPartitionStates()) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	partitions(w, t.GetPartitionStates())
	if err := w.Flush(); err != nil {
		return err //nolint:wrapcheck // of the output.
	}
	if !replicas(w, t.GetPartitionStates()) {
		return nil
	}
	fmt.Fprintln(out)
	return w.Flush() //nolint:wrapcheck // of the output.
}

// partitions has a line for each.
func partitions(w io.Writer, states []*controlv1.Partition) {
	fmt.Fprintln(w, "PARTITION\tLEADER\tEPOCH\tMEMBERS\tSTATE\tLOG START\tLOCAL START\tTIER END\tCOMMITTED END\tLOCAL SIZE\tACK MEANS")
	for _, s := range states {
		state := "electing"
		if s.GetActive() {
			state = "active"
		}
		if n := s.GetDamagedRanges(); n > 0 {
			state += fmt.Sprintf(", %d damaged", n)
		}
		if s.GetMove() != nil {
			state += ", " + Move(s.GetMove())
		}
		if s.GetLineage() != "" {
			state += ", recovered by force"
		}
		if s.GetError() != "" {
			state += ": " + s.GetError()
		}
		if !s.GetActive() { // nobody can tell the rest
			fmt.Fprintf(w, "%d\t-\t%d\t%s\t%s\t-\t-\t-\t-\t-\t-\n", s.GetPartition(), s.GetEpoch(), brokers(s.GetMembers()), state)
			continue
		}
		fmt.Fprintf(w, "%d\t%d\t%d\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\n", s.GetPartition(), s.GetLeader(), s.GetEpoch(), brokers(s.GetMembers()), state,
			s.GetLogStart(), s.GetLocalStart(), s.GetTierEnd(), s.GetHighWatermark(), Size(s.GetLocalBytes()), s.GetDurability())
	}
}

// replicas has a line for each that a leader told of, if there is one that is not alone.
func replicas(w io.Writer, states []*controlv1.Partition) (some bool) {
	for _, s := range states {
		some = some || len(s.GetReplicas()) > 1
	}
	if !some {
		return false
	}
	fmt.Fprintln(w, "PARTITION\tBROKER\tROLE\tHAS UP TO\tLAG\tCOMMITTED END\tHEARD")
	for _, s := range states {
		for _, r := range s.GetReplicas() {
			role, heard := "member", "-"
			switch {
			case r.GetLeader():
				role = "leader"
			case r.GetLearner():
				role = "learner"
			}
			if !r.GetLive() {
				role += ", down"
			}
			if r.GetLastHeard() != nil {
				heard = r.GetLastHeard().AsDuration().Round(time.Millisecond).String() + " ago"
			}
			fmt.Fprintf(w, "%d\t%d\t%s\t%d\t%d\t%d\t%s\n", s.GetPartition(), r.GetBroker(), role, r.GetMatch(), r.GetLag(), r.GetHighWatermark(), heard)
		}
	}
	return true
}

func tier(t *controlv1.Topic) string {
	switch {
	case t.GetTier().GetDisabled():
		return "off"
	case t.GetTier().GetMaxLag() != nil:
		return "on, at most " + t.GetTier().GetMaxLag().AsDuration().String() + " behind"
	default:
		return "on"
	}
}

func cleanup(t *controlv1.Topic) string {
	if t.GetCleanup() != controlv1.Cleanup_CLEANUP_COMPACT {
		return "delete"
	}
	age := 24 * time.Hour
	if d := t.GetCompaction().GetTombstoneAge(); d != nil {
		age = d.AsDuration()
	}
	return fmt.Sprintf("compact, null values stay %v", age)
}

func retention(t *controlv1.Topic) string {
	return keep(t.GetRetention().GetTime(), t.GetRetention().GetBytes(), "for ever")
}

func keep(span *durationpb.Duration, bytes int64, otherwise string) string {
	var parts []string
	if span != nil {
		parts = append(parts, span.AsDuration().String())
	}
	if bytes > 0 {
		parts = append(parts, Size(bytes))
	}
	if len(parts) == 0 {
		return otherwise
	}
	return strings.Join(parts, " or ")
}

func durability(t *controlv1.Topic) string {
	if t.GetDurability() == controlv1.Durability_DURABILITY_RELAXED {
		return "relaxed"
	}
	return "quorum"
}

// Size shows a size with a unit, rounded where it is not whole.
func Size(n int64) string {
	for _, unit := range []struct {
		name string
		size int64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.size && n%unit.size != 0 {
			return fmt.Sprintf("%.1f%s", float64(n)/float64(unit.size), unit.name)
		}
	}
	if n < 1<<10 {
		return fmt.Sprintf("%dB", n)
	}
	return config.Bytes(n).String()
}

// Records counts records.
func Records(n int64) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}
