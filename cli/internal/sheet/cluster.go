package sheet

import (
	"fmt"
	"io"
	"strings"
	"time"

	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

// Cluster prints how a cluster is.
func Cluster(out io.Writer, c *controlv1.Cluster) error {
	w := table(out)
	coordinator := c.GetCoordinator()
	if coordinator == "" {
		coordinator = "none"
	}
	for _, line := range [][2]string{
		{"cluster", c.GetClusterId()},
		{"coordinator", coordinator},
		{"brokers", fmt.Sprint(c.GetBrokers())},
		{"gateways", fmt.Sprint(c.GetGateways())},
		{"tierers", fmt.Sprint(c.GetTierers())},
		{"software", strings.Join(c.GetSoftware(), ", ")},
		{"topics", fmt.Sprint(c.GetTopics())},
		{"partitions", fmt.Sprint(c.GetPartitions())},
		{"without leader", fmt.Sprint(c.GetPartitionsWithoutLeader())},
		{"under-replicated", fmt.Sprint(c.GetUnderReplicatedPartitions())},
		{"moves", fmt.Sprintf("%d under way, %d waiting", c.GetMovesStarted(), c.GetMovesWaiting())},
		{"forced recoveries", fmt.Sprint(c.GetRecoveries())},
	} {
		fmt.Fprintf(w, "%s\t%s\n", line[0], line[1])
	}
	return w.Flush() //nolint:wrapcheck // of the output.
}

// Brokers prints a line for each.
func Brokers(out io.Writer, all *controlv1.ListBrokersResponse) error {
	w := table(out)
	fmt.Fprintln(w, "BROKER\tSTATE\tLEADS\tREPLICAS\tZONE\tDISKS\tADDRESS\tSOFTWARE")
	for _, b := range all.GetBrokers() {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\n", b.GetId(), State(b), b.GetLeads(), b.GetReplicas(),
			orDash(b.GetZone()), disks(b.GetDisks()), orDash(b.GetAddress()), orDash(b.GetSoftware()))
	}
	return w.Flush() //nolint:wrapcheck // of the output.
}

// State of a broker in a few words.
func State(b *controlv1.Broker) string {
	state := strings.ToLower(strings.TrimPrefix(b.GetState().String(), "BROKER_STATE_"))
	switch b.GetState() {
	case controlv1.BrokerState_BROKER_STATE_SUSPECTED:
		return state + " by " + brokers(b.GetSuspectedBy())
	case controlv1.BrokerState_BROKER_STATE_DECOMMISSIONING:
		return fmt.Sprintf("%s, %d of %d replicas left", state, b.GetReplicas(), max(b.GetDecommissionTotal(), b.GetReplicas()))
	default:
		return state
	}
}

func disks(all []*controlv1.Disk) string {
	if len(all) == 0 {
		return "-"
	}
	var texts []string
	for _, d := range all {
		text := d.GetState()
		if d.GetTotalBytes() > 0 {
			text += " " + Size(d.GetFreeBytes()) + " free of " + Size(d.GetTotalBytes())
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ", ")
}

// Moves prints a line for each change of members.
func Moves(out io.Writer, all *controlv1.ListMovesResponse) error {
	if len(all.GetMoves()) == 0 {
		_, err := fmt.Fprintln(out, "no members are being changed")
		return err //nolint:wrapcheck // of the output.
	}
	w := table(out)
	fmt.Fprintln(w, "PARTITION\tFROM\tTO\tSTATE\tWHY")
	for _, m := range all.GetMoves() {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", named(m.GetNamespace(), m.GetTopic(), m.GetPartition()), brokers(m.GetFrom()), brokers(m.GetTo()), started(m), why(m))
	}
	if err := w.Flush(); err != nil || int(all.GetTotal()) <= len(all.GetMoves()) {
		return err //nolint:wrapcheck // of the output.
	}
	_, err := fmt.Fprintf(out, "and %d more\n", int(all.GetTotal())-len(all.GetMoves()))
	return err //nolint:wrapcheck // of the output.
}

// Move of a partition in a few words.
func Move(m *controlv1.Move) string {
	return fmt.Sprintf("%s to %s (%s)", started(m), brokers(m.GetTo()), why(m))
}

func started(m *controlv1.Move) string {
	if m.GetStarted() {
		return "moving"
	}
	return "waits to move"
}

func why(m *controlv1.Move) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(m.GetReason().String(), "MOVE_REASON_")), "_", " ")
}

// Recovery prints a forced recovery, or what it would be.
func Recovery(out io.Writer, r *controlv1.Recovery) error {
	w := table(out)
	partition := named(r.GetNamespace(), r.GetTopic(), r.GetPartition())
	if r.GetDone() {
		fmt.Fprintf(w, "recovered\t%s  epoch %d  %s\n", partition, r.GetEpoch(), r.GetRecoverTime().AsTime().Local().Format(time.RFC3339))
		fmt.Fprintf(w, "lineage\t%s\n", r.GetLineage())
	} else {
		fmt.Fprintf(w, "would recover\t%s\n", partition)
	}
	fmt.Fprintf(w, "goes on from\tbroker %d  last epoch %d  end %d\n", r.GetSurvivor(), r.GetSurvivorEpoch(), r.GetSurvivorEnd())
	fmt.Fprintf(w, "known committed\t%d\n", r.GetHighWatermark())
	if err := w.Flush(); err != nil {
		return err //nolint:wrapcheck // of the output.
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "BROKER\tREPLICA\tLAST EPOCH\tEND\tCOMMITTED END\tSTATE")
	for _, m := range r.GetMembers() {
		switch {
		case !m.GetFound():
			fmt.Fprintf(w, "%d\t%s\t-\t-\t-\t%s\n", m.GetBroker(), m.GetReplica(), "gone: "+m.GetError())
		default:
			state := "there"
			if m.GetFaulty() {
				state = "damaged"
			}
			fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%s\n", m.GetBroker(), m.GetReplica(), m.GetLastEpoch(), m.GetEnd(), m.GetHighWatermark(), state)
		}
	}
	if err := w.Flush(); err != nil {
		return err //nolint:wrapcheck // of the output.
	}
	_, err := fmt.Fprintf(out, "\n%s\n", r.GetLoss())
	return err //nolint:wrapcheck // of the output.
}

// Recoveries prints all of them.
func Recoveries(out io.Writer, all *controlv1.ListRecoveriesResponse) error {
	if len(all.GetRecoveries()) == 0 {
		_, err := fmt.Fprintln(out, "no partition was ever recovered by force")
		return err //nolint:wrapcheck // of the output.
	}
	for i, r := range all.GetRecoveries() {
		if i > 0 {
			fmt.Fprintln(out)
		}
		if err := Recovery(out, r); err != nil {
			return err
		}
	}
	return nil
}

// named is a partition as it is typed.
func named(namespace, topic string, partition int32) string {
	if namespace != "" && namespace != "default" {
		topic = namespace + "/" + topic
	}
	return fmt.Sprintf("%s/%d", topic, partition)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
