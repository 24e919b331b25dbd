package command

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/cli/internal/record"
	"github.com/seedqueue/sq/cli/internal/value"
	"github.com/seedqueue/sq/sdk/go/sq"
)

// consumeOptions are what can be said of a consume.
type consumeOptions struct {
	from, format, output string
	follow, untilEnd     bool
	count                int64
	partitions           []int
}

const consumeLong = `Read records of a topic and print them, in the order of their offsets within each partition.

Without --follow it ends when all is read that was there when it began. With --follow it goes on until it is interrupted, or --count records
were read. --from latest implies --follow.

Formats:
  lines        the value and a line end (the default)
  raw          the value only: what 'sq produce --format raw' stored comes back byte by byte
  json         an object a line; 'sq produce --format json' reads it
  a template   {topic} {partition} {offset} {time} {timestamp} {key} {value} {headers}; {{ and }} are braces, \n and \t a line end and a tab. A
               line end follows each record. {time} is when the record was appended, {timestamp} is the producer's`

func (p *program) consume() *cobra.Command {
	o := &consumeOptions{}
	cmd := &cobra.Command{
		Use:     "consume TOPIC",
		Aliases: []string{"sub"},
		Short:   "Read records",
		Long:    consumeLong,
		Example: `  sq consume orders
  sq consume orders -f --from latest
  sq consume orders --from 09:00 -n 10 -o '{time} {partition}@{offset} {value}'
  sq consume orders --from earliest --until-end --format raw > orders.log`,
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.runConsume(cmd.Context(), args[0], o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "earliest", "earliest, latest, an offset (where the topic has several partitions, with one --partition), a time of today (09:00, 09:00:30), or 2006-01-02T15:04:05Z")
	f.BoolVarP(&o.follow, "follow", "f", false, "go on at the end and wait for more")
	f.BoolVar(&o.untilEnd, "until-end", false, "end when all is read that was there at the start: the default without --follow")
	f.Int64VarP(&o.count, "count", "n", 0, "end after so many records; 0 = no limit")
	f.IntSliceVar(&o.partitions, "partition", nil, "only these partitions; without it all")
	f.StringVar(&o.format, "format", "", "lines, raw, json, or a template")
	f.StringVarP(&o.output, "output", "o", "", "the same as --format")
	formats := cobra.FixedCompletions([]string{record.Lines, record.Raw, record.JSON, "{time} {value}"}, cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("format", formats)
	_ = cmd.RegisterFlagCompletionFunc("output", formats)
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"earliest", "latest"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// read gives the options of the reader.
func (o *consumeOptions) read(p *program) ([]sq.ReadOption, error) {
	from, err := o.position(p)
	if err != nil {
		return nil, err
	}
	if o.untilEnd && o.follow {
		return nil, usagef("--until-end and --follow exclude each other")
	}
	if o.count < 0 {
		return nil, usagef("--count: %d is negative", o.count)
	}
	if _, byOffset := from.(sq.Offset); byOffset && len(o.partitions) > 1 {
		return nil, usagef("--from with an offset needs one --partition: offsets are a partition's own, say --partition 0")
	}
	options := []sq.ReadOption{sq.From(from)}
	if len(o.partitions) > 0 {
		options = append(options, sq.Partitions(o.partitions...))
	}
	if !o.follow && (from != sq.Latest || o.untilEnd) {
		options = append(options, sq.Until(sq.End))
	} else {
		o.follow = true
	}
	return options, nil
}

func (o *consumeOptions) position(p *program) (sq.Position, error) {
	switch o.from {
	case "earliest":
		return sq.Earliest, nil
	case "latest":
		return sq.Latest, nil
	}
	if offset, err := strconv.ParseInt(o.from, 10, 64); err == nil && offset >= 0 {
		return sq.Offset(offset), nil
	}
	t, err := value.ParseTime(o.from, p.env.Now())
	if err != nil {
		return nil, usagef("--from: %w; or earliest, latest, an offset", err)
	}
	return sq.Time(t), nil
}

// printer makes the writer of the chosen format.
func (o *consumeOptions) printer(p *program, topic string) (*record.Writer, error) {
	format := o.format
	switch {
	case format == "":
		format = o.output
	case o.output != "" && o.output != format:
		return nil, usagef("--format and --output say different things")
	}
	if format == "" {
		format = record.Lines
	}
	w, err := record.NewWriter(p.env.Stdout, topic, format)
	if err != nil {
		return nil, usageError{err}
	}
	return w, nil
}

func (p *program) runConsume(ctx context.Context, topic string, o *consumeOptions) error {
	options, err := o.read(p)
	if err != nil {
		return err
	}
	w, err := o.printer(p, topic)
	if err != nil {
		return err
	}
	client, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	err = p.copyRecords(ctx, client, w, topic, o, options)
	if flushErr := w.Flush(); err == nil {
		err = flushErr
	}
	switch {
	case errors.Is(err, syscall.EPIPE): // as in `sq consume … | head`: whoever read has enough
		return nil
	case err != nil && ctx.Err() != nil && o.follow: // to be interrupted is how following ends
		return nil
	default:
		return err
	}
}

func (p *program) copyRecords(
	ctx context.Context, client *sq.Client, w *record.Writer, topic string, o *consumeOptions, options []sq.ReadOption,
) error {
	left := o.count
	var r sq.Record
	for b, err := range client.ReadBatches(ctx, p.topicName(topic), options...) {
		if err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		for i := range b.Len() {
			b.Record(i, &r)
			w.Write(&r)
			if left--; left == 0 {
				return nil
			}
		}
		if o.follow { // somebody waits for it
			if err := w.Flush(); err != nil {
				return err
			}
		}
		if err := w.Err(); err != nil { // nobody gets the rest
			return err
		}
	}
	return nil
}
