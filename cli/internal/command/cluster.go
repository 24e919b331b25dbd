package command

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

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

// shows makes a command that asks the cluster service one thing and shows the answer.
func shows[T proto.Message](p *program, use, short string,
	ask func(context.Context, controlv1.ClusterServiceClient) (T, error), show func(io.Writer, T) error,
) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.clusters(cmd.Context(), func(ctx context.Context, client controlv1.ClusterServiceClient) error {
				answer, err := ask(ctx, client)
				switch {
				case err != nil:
					return err
				case output == outputJSON:
					return p.print(answer)
				default:
					return show(p.env.Stdout, answer)
				}
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) clusterStatus() *cobra.Command {
	return shows(p, "status", "Show the coordinator, the services and how the partitions are",
		func(ctx context.Context, client controlv1.ClusterServiceClient) (*controlv1.Cluster, error) {
			return client.GetCluster(ctx, &controlv1.GetClusterRequest{})
		}, sheet.Cluster)
}

func (p *program) clusterBrokers() *cobra.Command {
	return shows(p, "brokers", "List brokers with their state, leaders, replicas and disks",
		func(ctx context.Context, client controlv1.ClusterServiceClient) (*controlv1.ListBrokersResponse, error) {
			return client.ListBrokers(ctx, &controlv1.ListBrokersRequest{})
		}, sheet.Brokers)
}

func (p *program) clusterMoves() *cobra.Command {
	return shows(p, "moves", "List partitions whose members are being changed, and those that wait for it",
		func(ctx context.Context, client controlv1.ClusterServiceClient) (*controlv1.ListMovesResponse, error) {
			return client.ListMoves(ctx, &controlv1.ListMovesRequest{PageSize: 1000})
		}, sheet.Moves)
}

func (p *program) clusterRecoveries() *cobra.Command {
	return shows(p, "recoveries", "Show every forced recovery there ever was, and what it lost",
		func(ctx context.Context, client controlv1.ClusterServiceClient) (*controlv1.ListRecoveriesResponse, error) {
			return client.ListRecoveries(ctx, &controlv1.ListRecoveriesRequest{})
		}, sheet.Recoveries)
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
				return sheet.Moves(p.env.Stdout, &controlv1.ListMovesResponse{Moves: planned.GetMoves()})
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
