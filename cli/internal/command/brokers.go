package command

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/cli/internal/sheet"
	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/clock"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

// decommissionPoll is how often --wait looks.
const decommissionPoll = time.Second

func (p *program) clusterDrain() *cobra.Command {
	var output string
	var cancel bool
	cmd := &cobra.Command{
		Use:   "drain BROKER",
		Short: "Move the leaders away from a broker and keep them away; its replicas stay",
		Args:  takes, ValidArgsFunction: p.completeBrokers,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.order(cmd.Context(), args[0], output, func(ctx context.Context, client controlv1.ClusterServiceClient, id int64) (*controlv1.Broker, error) {
				if cancel {
					return client.UndrainBroker(ctx, &controlv1.UndrainBrokerRequest{Broker: id})
				}
				return client.DrainBroker(ctx, &controlv1.DrainBrokerRequest{Broker: id})
			})
		},
	}
	cmd.Flags().BoolVar(&cancel, "cancel", false, "let it lead again")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) clusterDecommission() *cobra.Command {
	var output string
	var cancel, wait bool
	in := &controlv1.DecommissionBrokerRequest{}
	cmd := &cobra.Command{
		Use:   "decommission BROKER",
		Short: "Move all replicas away from a broker, so that it can be taken away",
		Example: `  sq cluster decommission 3 --wait     # then stop it
  sq cluster decommission 3 --cancel`,
		Args: takes, ValidArgsFunction: p.completeBrokers,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := p.order(cmd.Context(), args[0], output, func(ctx context.Context, client controlv1.ClusterServiceClient, id int64) (*controlv1.Broker, error) {
				if cancel {
					return client.RecommissionBroker(ctx, &controlv1.RecommissionBrokerRequest{Broker: id})
				}
				in.Broker = id
				return client.DecommissionBroker(ctx, in)
			})
			if err != nil || !wait || cancel || in.GetValidateOnly() {
				return err
			}
			return p.awaitDecommission(cmd.Context(), in.GetBroker())
		},
	}
	cmd.Flags().BoolVar(&cancel, "cancel", false, "end it: what has moved stays where it is")
	cmd.Flags().BoolVar(&wait, "wait", false, "return when it holds nothing any more; progress goes to standard error")
	cmd.Flags().BoolVar(&in.ValidateOnly, "validate-only", false, "only tell whether it can be")
	outputFlag(cmd, &output)
	return cmd
}

// order passes an order for a broker on and shows the broker.
func (p *program) order(ctx context.Context, broker, output string,
	call func(context.Context, controlv1.ClusterServiceClient, int64) (*controlv1.Broker, error),
) error {
	id, err := brokerID(broker)
	if err != nil {
		return err
	}
	return p.clusters(ctx, func(ctx context.Context, client controlv1.ClusterServiceClient) error {
		b, err := call(ctx, client, id)
		if err != nil {
			return err
		}
		if output == outputJSON {
			return p.print(b)
		}
		_, err = fmt.Fprintf(p.env.Stdout, "broker %d  %s  leads %d  replicas %d\n", b.GetId(), sheet.State(b), b.GetLeads(), b.GetReplicas())
		return err
	})
}

// awaitDecommission looks until a broker holds nothing.
func (p *program) awaitDecommission(ctx context.Context, id int64) error {
	for last := ""; ; {
		var state controlv1.BrokerState
		var text string
		err := p.clusters(ctx, func(ctx context.Context, client controlv1.ClusterServiceClient) error {
			all, err := client.ListBrokers(ctx, &controlv1.ListBrokersRequest{})
			for _, b := range all.GetBrokers() {
				if b.GetId() == id {
					state, text = b.GetState(), sheet.State(b)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
		if text != last {
			fmt.Fprintf(p.env.Stderr, "broker %d  %s\n", id, text)
			last = text
		}
		switch state {
		case controlv1.BrokerState_BROKER_STATE_DECOMMISSIONED:
			return nil
		case controlv1.BrokerState_BROKER_STATE_DECOMMISSIONING, controlv1.BrokerState_BROKER_STATE_DOWN:
		default:
			return fmt.Errorf("wait for broker %d to be decommissioned: it is %s: somebody has cancelled it", id, text)
		}
		if err := backoff.Sleep(ctx, clock.Real(), decommissionPoll); err != nil {
			return fmt.Errorf("wait for broker %d to be decommissioned: %w", id, err)
		}
	}
}

func (p *program) clusterCanStop() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "can-stop BROKER",
		Short: "Tell whether a broker can be stopped now without a partition losing its majority; exit code 1 if not",
		Args:  takes, ValidArgsFunction: p.completeBrokers,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := brokerID(args[0])
			if err != nil {
				return err
			}
			return p.clusters(cmd.Context(), func(ctx context.Context, client controlv1.ClusterServiceClient) error {
				verdict, err := client.CanStop(ctx, &controlv1.CanStopRequest{Broker: id})
				if err != nil {
					return err
				}
				word := "no"
				if verdict.GetSafe() {
					word = "yes"
				}
				if output == outputJSON {
					err = p.print(verdict)
				} else {
					_, err = fmt.Fprintf(p.env.Stdout, "%s: %s\n", word, verdict.GetReason())
				}
				if err == nil && !verdict.GetSafe() {
					return exitError{exitFailed}
				}
				return err
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func brokerID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, usagef("%q is no broker's id, which is a number from 1: see 'sq cluster brokers'", text)
	}
	return id, nil
}

// completeBrokers gives the ids of brokers.
func (p *program) completeBrokers(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	var ids []string
	err := p.clusters(ctx, func(ctx context.Context, client controlv1.ClusterServiceClient) error {
		all, err := client.ListBrokers(ctx, &controlv1.ListBrokersRequest{})
		for _, b := range all.GetBrokers() {
			if id := strconv.FormatInt(b.GetId(), 10); strings.HasPrefix(id, typed) {
				ids = append(ids, id+"\t"+sheet.State(b))
			}
		}
		return err
	})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError | cobra.ShellCompDirectiveNoFileComp
	}
	return ids, cobra.ShellCompDirectiveNoFileComp
}
