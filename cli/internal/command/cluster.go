package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/seedqueue/sq/cli/internal/sheet"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

func (p *program) cluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the cluster, move leaders and replicas, take brokers away",
		Args:  takesCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return usagef("%s needs a command", cmd.CommandPath()) },
	}
	cmd.AddCommand(p.clusterStatus(), p.clusterBrokers(), p.clusterMoves(), p.clusterRecoveries(), p.clusterReassign(), p.clusterTransferLeader(),
		p.clusterDrain(), p.clusterDecommission(), p.clusterCanStop())
	return cmd
}

// clusters runs a call of the cluster service.
func (p *program) clusters(ctx context.Context, call func(context.Context, controlv1.ClusterServiceClient) error) error {
	return p.control(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return call(ctx, controlv1.NewClusterServiceClient(conn))
	})
}

func (p *program) clusterStatus() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the coordinator, the services and how the partitions are",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.clusters(cmd.Context(), func(ctx context.Context, client controlv1.ClusterServiceClient) error {
				c, err := client.GetCluster(ctx, &controlv1.GetClusterRequest{})
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(c)
				}
				return sheet.Cluster(p.env.Stdout, c)
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) clusterBrokers() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "brokers",
		Short: "List brokers with their state, leaders, replicas and disks",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.clusters(cmd.Context(), func(ctx context.Context, client controlv1.ClusterServiceClient) error {
				all, err := client.ListBrokers(ctx, &controlv1.ListBrokersRequest{})
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(all)
				}
				return sheet.Brokers(p.env.Stdout, all.GetBrokers())
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) clusterMoves() *cobra.Command {
	var output string
	in := &controlv1.ListMovesRequest{PageSize: 1000}
	cmd := &cobra.Command{
		Use:   "moves",
		Short: "List partitions whose members are being changed, and those that wait for it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.clusters(cmd.Context(), func(ctx context.Context, client controlv1.ClusterServiceClient) error {
				all, err := client.ListMoves(ctx, in)
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(all)
				}
				return sheet.Moves(p.env.Stdout, all.GetMoves(), all.GetTotal())
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) clusterRecoveries() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "recoveries",
		Short: "Show every forced recovery there ever was, and what it lost",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.clusters(cmd.Context(), func(ctx context.Context, client controlv1.ClusterServiceClient) error {
				all, err := client.ListRecoveries(ctx, &controlv1.ListRecoveriesRequest{})
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(all)
				}
				if len(all.GetRecoveries()) == 0 {
					_, err := fmt.Fprintln(p.env.Stdout, "no partition was ever recovered by force")
					return err
				}
				for _, r := range all.GetRecoveries() {
					if err := sheet.Recovery(p.env.Stdout, r); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) clusterReassign() *cobra.Command {
	var output string
	in := &controlv1.ReassignTopicRequest{}
	cmd := &cobra.Command{
		Use:   "reassign TOPIC[/PARTITION]",
		Short: "Plan other brokers, or another number of replicas, for a partition or a topic",
		Long: `Plan other brokers, or another number of replicas, for a partition or a topic.

It answers when the plan is written; 'sq cluster moves' shows how far it is. A few partitions move at a time, and none loses its majority.`,
		Example: `  sq cluster reassign orders/3 --brokers 1,2,4
  sq cluster reassign orders --replication-factor 3
  sq cluster reassign orders --cancel`,
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Namespace = p.namespace
			topic, partition, found, err := splitPartition(args[0])
			if err != nil {
				return err
			}
			if in.Topic = topic; found {
				in.Partition = &partition
			}
			if len(in.GetBrokers()) == 0 && in.GetReplicationFactor() == 0 && !in.GetCancel() {
				return usagef("name one of --brokers, --replication-factor and --cancel")
			}
			return p.topics(cmd.Context(), func(ctx context.Context, client controlv1.TopicServiceClient) error {
				planned, err := client.ReassignTopic(ctx, in)
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(planned)
				}
				if in.GetReplicationFactor() != 0 {
					_, err := fmt.Fprintf(p.env.Stdout, "%s gets %d replicas a partition\n", in.GetTopic(), in.GetReplicationFactor())
					return err
				}
				return sheet.Moves(p.env.Stdout, planned.GetMoves(), 0)
			})
		},
	}
	cmd.Flags().Int64SliceVar(&in.Brokers, "brokers", nil, "ids of the brokers that are to hold the replicas: 1, 3 or 5 of them")
	cmd.Flags().Int32Var(&in.ReplicationFactor, "replication-factor", 0, "1, 3 or 5: SQ chooses the brokers; for a whole topic")
	cmd.Flags().BoolVar(&in.Cancel, "cancel", false, "give up what is planned and not finished")
	cmd.Flags().BoolVar(&in.ValidateOnly, "validate-only", false, "only show what would be planned")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) clusterTransferLeader() *cobra.Command {
	var output string
	in := &controlv1.TransferLeaderRequest{}
	cmd := &cobra.Command{
		Use:               "transfer-leader TOPIC/PARTITION",
		Short:             "Hand the leadership of a partition to another of its members",
		Example:           "  sq cluster transfer-leader orders/3 --to 2",
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if in.Topic, in.Partition, err = onePartition(args[0]); err != nil {
				return err
			}
			in.Namespace = p.namespace
			return p.topics(cmd.Context(), func(ctx context.Context, client controlv1.TopicServiceClient) error {
				now, err := client.TransferLeader(ctx, in)
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(now)
				}
				_, err = fmt.Fprintf(p.env.Stdout, "%s  leader %d  epoch %d\n", args[0], now.GetLeader(), now.GetEpoch())
				return err
			})
		},
	}
	cmd.Flags().Int64Var(&in.Broker, "to", 0, "id of a broker that is a member; without it SQ chooses")
	outputFlag(cmd, &output)
	return cmd
}

// splitPartition reads TOPIC or TOPIC/PARTITION.
func splitPartition(text string) (topic string, partition int32, found bool, err error) {
	topic, index, found := strings.Cut(text, "/")
	if !found {
		return topic, 0, false, nil
	}
	n, err := strconv.ParseInt(index, 10, 32)
	if err != nil || n < 0 {
		return "", 0, false, usagef("%q is not TOPIC/PARTITION: %q is no number of a partition", text, index)
	}
	return topic, int32(n), true, nil
}

// onePartition reads TOPIC/PARTITION.
func onePartition(text string) (topic string, partition int32, err error) {
	topic, partition, found, err := splitPartition(text)
	if err == nil && !found {
		err = usagef("%q names no partition: say %s/0, for instance", text, text)
	}
	return topic, partition, err
}
