package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/cli/internal/sheet"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

func (p *program) admin() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "admin",
		Short: "What is done only when everything else has failed",
		Args:  takesCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return usagef("%s needs a command", cmd.CommandPath()) },
	}
	cmd.AddCommand(p.adminForceRecover())
	return cmd
}

func (p *program) adminForceRecover() *cobra.Command {
	var output string
	in := &controlv1.ForceRecoverRequest{}
	cmd := &cobra.Command{
		Use:   "force-recover TOPIC/PARTITION",
		Short: "Restart a partition from the best replica that is left, and lose what only the others had",
		Long: `Restart a partition from the best replica that is left, and lose what only the others had.

Only for a partition whose majority is gone for good: it is refused while a majority of the last active members answers. Without --accept-loss
nothing is changed: it prints what would be lost. Stop the brokers that are gone for good before: one that still runs, cut off, may go on
acknowledging. What was done stays on record: 'sq cluster recoveries'.`,
		Example: `  sq admin force-recover orders/3
  sq admin force-recover orders/3 --accept-loss`,
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if in.Topic, in.Partition, err = onePartition(args[0]); err != nil {
				return err
			}
			in.Namespace = p.namespace
			return p.topics(cmd.Context(), func(ctx context.Context, client controlv1.TopicServiceClient) error {
				r, err := client.ForceRecover(ctx, in)
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(r)
				}
				if err := sheet.Recovery(p.env.Stdout, r); err != nil || r.GetDone() {
					return err
				}
				_, err = fmt.Fprintln(p.env.Stderr, "Nothing was changed. To do it, say --accept-loss.")
				return err
			})
		},
	}
	cmd.Flags().BoolVar(&in.AcceptLoss, "accept-loss", false, "do it, and lose what is printed")
	outputFlag(cmd, &output)
	return cmd
}
