package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/cli/internal/load"
	"github.com/seedqueue/sq/cli/internal/sheet"
	"github.com/seedqueue/sq/cli/internal/value"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/sq"
)

func (p *program) bench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure publishing and reading",
		Args:  takesCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return usagef("%s needs a command", cmd.CommandPath()) },
	}
	cmd.AddCommand(p.benchProduce(), p.benchConsume())
	return cmd
}

// report is a result with what was asked for.
type report struct {
	Command    string `json:"command"`
	Topic      string `json:"topic"`
	RecordSize int    `json:"record_size,omitempty"`
	BatchBytes int    `json:"batch_bytes,omitempty"`
	InFlight   int    `json:"in_flight,omitempty"`
	Clients    int    `json:"clients"`
	load.Result
}

const (
	recordSizeMax = 1 << 20
	inFlightMax   = 1024
	clientsMax    = 1024
	// benchGCPercent: the heap of a client is small, so that the default collects it a hundred times a second.
	benchGCPercent = 800
)

func (p *program) benchProduce() *cobra.Command {
	var output, codec string
	var batchBytes, recordSize int64
	clients, spread := 1, false
	cfg := load.ProduceConfig{InFlight: 4, Duration: 10 * time.Second}
	cmd := &cobra.Command{
		Use:   "produce",
		Short: "Measure publishing",
		Long: `Publish for a while and tell the rates, the latency of a publish and the durability that was reached.

A publish is one call with as many records as fit --batch-bytes, at least one. Each client has a connection of its own and --in-flight
publishes under way. With --spread each of these has a partition of its own, in turn, instead of one that the client chooses.`,
		Example: "  sq bench produce --topic bench --record-size 100 --batch-bytes 64KiB --in-flight 8 --duration 10s -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.RecordSize, cfg.BatchBytes = int(recordSize), int(batchBytes)
			var err error
			if cfg.Codec, err = batch.ParseCodec(codec); err != nil {
				return usagef("--codec: %w", err)
			}
			if err := checkLoad(cfg.Duration, clients, cfg.RecordSize, cfg.BatchBytes, cfg.InFlight); err != nil {
				return err
			}
			r := report{Command: "produce", Topic: cfg.Topic, RecordSize: cfg.RecordSize, BatchBytes: cfg.BatchBytes, InFlight: cfg.InFlight, Clients: clients}
			cfg.Topic = p.topicName(cfg.Topic)
			return p.runBench(cmd.Context(), r, output, func(ctx context.Context, all []*sq.Client) (load.Result, error) {
				if spread {
					topic, err := all[0].Topic(ctx, cfg.Topic)
					if err != nil {
						return load.Result{}, err
					}
					cfg.Partitions = len(topic.Partitions)
				}
				return load.Produce(ctx, all, cfg)
			})
		},
	}
	f := cmd.Flags()
	benchFlags(cmd, &cfg.Topic, &clients, &cfg.Duration)
	recordSize, batchBytes, codec = 100, 64<<10, sq.None.String()
	f.Var(value.Bytes{To: &recordSize}, "record-size", "bytes of a record's value, 1 to 1MiB")
	f.Var(value.Bytes{To: &batchBytes}, "batch-bytes", "bytes of the values in a publish; with 1, one record each")
	f.IntVar(&cfg.InFlight, "in-flight", cfg.InFlight, "publishes of a client under way")
	f.Var(value.OneOf{To: &codec, Legal: []string{sq.None.String(), sq.S2.String(), sq.LZ4.String(), sq.Zstd.String()}}, "codec", "compression: none, s2, lz4 or zstd")
	f.BoolVar(&spread, "spread", false, "a partition for each publish under way")
	f.BoolVar(&cfg.Compressible, "compressible", false, "publish text instead of random bytes")
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) benchConsume() *cobra.Command {
	var output, topic string
	var duration time.Duration
	clients := 1
	cmd := &cobra.Command{
		Use:   "consume",
		Short: "Measure reading",
		Long: `Read a topic from its beginning, with each client for itself, until its end or the duration, and tell the rates. The latency is the time that a
reader waits for the next batch.`,
		Example: "  sq bench consume --topic bench --duration 10s -o json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkLoad(duration, clients, 1, 1, 1); err != nil {
				return err
			}
			return p.runBench(cmd.Context(), report{Command: "consume", Topic: topic, Clients: clients}, output,
				func(ctx context.Context, all []*sq.Client) (load.Result, error) {
					return load.Consume(ctx, all, load.ConsumeConfig{Topic: p.topicName(topic), Duration: duration})
				})
		},
	}
	duration = 10 * time.Second
	benchFlags(cmd, &topic, &clients, &duration)
	outputFlag(cmd, &output)
	return cmd
}

func benchFlags(cmd *cobra.Command, topic *string, clients *int, duration *time.Duration) {
	f := cmd.Flags()
	f.StringVar(topic, "topic", "bench", "topic")
	f.IntVar(clients, "clients", *clients, "clients, each with connections of its own")
	f.DurationVar(duration, "duration", *duration, "how long")
}

func checkLoad(duration time.Duration, clients, recordSize, batchBytes, inFlight int) error {
	switch {
	case duration <= 0 || duration > 24*time.Hour:
		return usagef("--duration: %v is outside 1ns to 24h", duration)
	case clients < 1 || clients > clientsMax:
		return usagef("--clients: %d is outside 1 to %d", clients, clientsMax)
	case recordSize < 1 || recordSize > recordSizeMax:
		return usagef("--record-size: %d is outside 1 to 1MiB", recordSize)
	case batchBytes < 1 || batchBytes > batch.MaxBytes:
		return usagef("--batch-bytes: %d is outside 1 to 8MiB", batchBytes)
	case inFlight < 1 || inFlight > inFlightMax:
		return usagef("--in-flight: %d is outside 1 to %d", inFlight, inFlightMax)
	default:
		return nil
	}
}

func (p *program) runBench(
	ctx context.Context, r report, output string, run func(context.Context, []*sq.Client) (load.Result, error),
) (err error) {
	// The garbage of the load is not what is measured.
	defer debug.SetGCPercent(debug.SetGCPercent(benchGCPercent))
	var all []*sq.Client
	defer func() {
		for _, client := range all {
			err = errors.Join(err, client.Close())
		}
	}()
	for range r.Clients {
		client, err := p.open(ctx)
		if err != nil {
			return err
		}
		all = append(all, client)
	}
	if r.Result, err = run(ctx, all); err != nil {
		return err
	}
	if output == outputJSON {
		return json.NewEncoder(p.env.Stdout).Encode(r)
	}
	_, err = fmt.Fprintf(p.env.Stdout,
		"%.0f records/s  %s/s  (%d records in %.1f s, %s)\nlatency ms: p50 %.2f  p90 %.2f  p99 %.2f  p99.9 %.2f  max %.2f\n",
		r.RecordsPerSecond, sheet.Size(int64(r.BytesPerSecond)), r.Records, r.Seconds, r.Durability,
		r.Latency.P50, r.Latency.P90, r.Latency.P99, r.Latency.P999, r.Latency.Max)
	if r.Errors > 0 && err == nil {
		err = fmt.Errorf("%d publishes failed, the first: %s", r.Errors, r.FirstError)
	}
	return err
}
