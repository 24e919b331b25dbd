package command

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/seedqueue/sq/cli/internal/sheet"
	"github.com/seedqueue/sq/cli/internal/value"
	controlv1 "github.com/seedqueue/sq/proto/gen/sq/control/v1"
)

func (p *program) topic() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "topic",
		Aliases: []string{"topics"},
		Short:   "Create, list, describe, alter, delete, seal and trim topics",
		Args:    takesCommand,
		RunE:    func(cmd *cobra.Command, _ []string) error { return usagef("%s needs a command", cmd.CommandPath()) },
	}
	cmd.AddCommand(p.topicCreate(), p.topicList(), p.topicDescribe(), p.topicAlter(), p.topicDelete(), p.topicSeal(), p.topicTrim())
	return cmd
}

// topics runs a call of the topic service.
func (p *program) topics(ctx context.Context, call func(context.Context, controlv1.TopicServiceClient) error) error {
	return p.control(ctx, func(ctx context.Context, conn grpc.ClientConnInterface) error {
		return call(ctx, controlv1.NewTopicServiceClient(conn))
	})
}

func (p *program) topicCreate() *cobra.Command {
	var output string
	settings := &topicSettings{}
	in := &controlv1.CreateTopicRequest{}
	var partitions, replicas int32
	cmd := &cobra.Command{
		Use:     "create NAME",
		Short:   "Create a topic",
		Example: "  sq topic create orders --partitions 8 --retention 7d",
		Args:    takes,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, _ := settings.topic(cmd)
			t.Topic, t.Partitions, t.ReplicationFactor = args[0], partitions, replicas
			in.Namespace, in.Topic, in.RequestId = p.namespace, t, uuid.NewString()
			return p.topics(cmd.Context(), func(ctx context.Context, client controlv1.TopicServiceClient) error {
				made, err := client.CreateTopic(ctx, in)
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(made)
				}
				verb := "created"
				if in.GetValidateOnly() {
					verb = "can create"
				}
				_, err = fmt.Fprintf(p.env.Stdout, "%s %s  partitions %d  replicas %d\n", verb, made.GetTopic(), made.GetPartitions(), made.GetReplicationFactor())
				return err
			})
		},
	}
	cmd.Flags().Int32Var(&partitions, "partitions", 0, "1 to 10000; 0 = 1. Cannot be changed later")
	cmd.Flags().Int32Var(&replicas, "replication-factor", 0, "replicas of each partition: 1, 3 or 5; 0 = 3 where there are as many brokers, else 1")
	cmd.Flags().BoolVar(&in.ValidateOnly, "validate-only", false, "check only")
	settings.flags(cmd)
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) topicList() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List topics",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			all := &controlv1.ListTopicsResponse{}
			err := p.eachTopic(cmd.Context(), func(t *controlv1.Topic) error {
				all.Topics = append(all.Topics, t)
				return nil
			})
			if err != nil {
				return err
			}
			if output == outputJSON {
				return p.print(all)
			}
			return sheet.Topics(p.env.Stdout, all.GetTopics())
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) topicDescribe() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:               "describe NAME",
		SuggestFor:        []string{"get", "show", "info"},
		Short:             "Show a topic's settings and partitions",
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.topics(cmd.Context(), func(ctx context.Context, client controlv1.TopicServiceClient) error {
				t, err := client.GetTopic(ctx, &controlv1.GetTopicRequest{Namespace: p.namespace, Topic: args[0]})
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(t)
				}
				return sheet.Topic(p.env.Stdout, t)
			})
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) topicAlter() *cobra.Command {
	var output, etag string
	var replicas int32
	settings := &topicSettings{}
	in := &controlv1.UpdateTopicRequest{}
	cmd := &cobra.Command{
		Use:               "alter NAME",
		SuggestFor:        []string{"update", "edit", "set"},
		Short:             "Change a topic's settings",
		Example:           "  sq topic alter orders --retention 30d --segment-bytes 64MiB\n  sq topic alter orders --replication-factor 3",
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			t, paths := settings.topic(cmd)
			if cmd.Flags().Changed("replication-factor") {
				t.ReplicationFactor = replicas
				paths = append(paths, "replication_factor")
			}
			if len(paths) == 0 {
				return usagef("nothing to change: name a setting")
			}
			t.Namespace, t.Topic, t.Etag = p.namespace, args[0], etag
			in.Topic, in.UpdateMask = t, &fieldmaskpb.FieldMask{Paths: paths}
			return p.topics(cmd.Context(), func(ctx context.Context, client controlv1.TopicServiceClient) error {
				altered, err := client.UpdateTopic(ctx, in)
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(altered)
				}
				_, err = fmt.Fprintf(p.env.Stdout, "altered %s  %s\n", altered.GetTopic(), strings.Join(paths, ", "))
				return err
			})
		},
	}
	cmd.Flags().Int32Var(&replicas, "replication-factor", 0, "replicas of each partition: 1, 3 or 5; carried out a few partitions at a time")
	cmd.Flags().StringVar(&etag, "etag", "", "refuse if the topic is not as it was when it had this etag")
	cmd.Flags().BoolVar(&in.ValidateOnly, "validate-only", false, "check only")
	settings.flags(cmd)
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) topicDelete() *cobra.Command {
	in := &controlv1.DeleteTopicRequest{}
	cmd := &cobra.Command{
		Use:               "delete NAME",
		Aliases:           []string{"rm"},
		Short:             "Delete a topic and its records",
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Namespace, in.Topic = p.namespace, args[0]
			return p.topics(cmd.Context(), func(ctx context.Context, client controlv1.TopicServiceClient) error {
				if _, err := client.DeleteTopic(ctx, in); err != nil {
					return err
				}
				_, err := fmt.Fprintf(p.env.Stdout, "deleted %s\n", args[0])
				return err
			})
		},
	}
	cmd.Flags().StringVar(&in.Id, "id", "", "refuse if the topic of this name has another id")
	return cmd
}

func (p *program) topicSeal() *cobra.Command {
	var output string
	var partition int32
	cmd := &cobra.Command{
		Use:               "seal NAME",
		Short:             "Close and seal the open segments, so that they move to the bucket now",
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := &controlv1.SealTopicRequest{Namespace: p.namespace, Topic: args[0]}
			if cmd.Flags().Changed("partition") {
				in.Partition = &partition
			}
			return p.topics(cmd.Context(), func(ctx context.Context, client controlv1.TopicServiceClient) error {
				sealed, err := client.SealTopic(ctx, in)
				if err != nil {
					return err
				}
				if output == outputJSON {
					return p.print(sealed)
				}
				for _, s := range sealed.GetPartitions() {
					what := "sealed to"
					if !s.GetSealed() {
						what = "nothing to seal, sealed to"
					}
					if _, err := fmt.Fprintf(p.env.Stdout, "%s/%d  %s %d\n", args[0], s.GetPartition(), what, s.GetSealedEnd()); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().Int32Var(&partition, "partition", 0, "only this partition; without it all")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) topicTrim() *cobra.Command {
	var output, before string
	var partition int32
	var offset int64
	in := &controlv1.TrimTopicRequest{}
	cmd := &cobra.Command{
		Use:   "trim NAME",
		Short: "Delete records before an offset or a time, or free local disk",
		Example: `  sq topic trim orders --partition 3 --before-offset 1000
  sq topic trim orders --before-time 2026-01-31T00:00:00Z
  sq topic trim orders --local     # frees disk that the bucket covers; deletes nothing for good`,
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			in.Namespace, in.Topic = p.namespace, args[0]
			if cmd.Flags().Changed("partition") {
				in.Partition = &partition
			}
			if cmd.Flags().Changed("before-offset") {
				in.BeforeOffset = &offset
			}
			if before != "" {
				t, err := value.ParseTime(before, p.env.Now())
				if err != nil {
					return usagef("--before-time: %w", err)
				}
				in.BeforeTime = timestamppb.New(t)
			}
			if (in.BeforeOffset != nil) == (in.GetBeforeTime() != nil) && !in.GetLocalOnly() {
				return usagef("name one of --before-offset, --before-time and --local")
			}
			if in.BeforeOffset != nil && in.Partition == nil {
				return usagef("--before-offset needs --partition: offsets are a partition's own")
			}
			return p.trim(cmd.Context(), in, output)
		},
	}
	cmd.Flags().Int32Var(&partition, "partition", 0, "only this partition; without it all")
	cmd.Flags().Int64Var(&offset, "before-offset", 0, "delete records before this offset")
	cmd.Flags().StringVar(&before, "before-time", "", "delete records appended before this time: 09:00 (today) or 2006-01-02T15:04:05Z")
	cmd.Flags().BoolVar(&in.LocalOnly, "local", false, "free local disk of what the bucket covers")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) trim(ctx context.Context, in *controlv1.TrimTopicRequest, output string) error {
	return p.topics(ctx, func(ctx context.Context, client controlv1.TopicServiceClient) error {
		trimmed, err := client.TrimTopic(ctx, in)
		if err != nil {
			return err
		}
		if output == outputJSON {
			return p.print(trimmed)
		}
		for _, t := range trimmed.GetPartitions() {
			if _, err := fmt.Fprintf(p.env.Stdout, "%s/%d  log from %d  local from %d\n",
				in.GetTopic(), t.GetPartition(), t.GetLogStart(), t.GetLocalStart()); err != nil {
				return err
			}
		}
		return nil
	})
}
