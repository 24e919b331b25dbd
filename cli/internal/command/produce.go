package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/cli/internal/line"
	"github.com/seedqueue/sq/cli/internal/record"
	"github.com/seedqueue/sq/cli/internal/value"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/sdk/go/sq"
)

// produceOptions are what can be said of a produce.
type produceOptions struct {
	file, format, key, output, codec string
	headers                          []string
	partition                        int
	batchBytes                       int64
	linger                           time.Duration
}

const produceLong = `Publish records to a topic, one given on the command line, or many from a file or standard input.

Formats of a file:
  lines   a record a line, without its end (LF or CRLF)
  raw     a record a line, with its end; the last may lack one. 'sq consume TOPIC --from earliest --until-end --format raw' then gives
          back the same bytes, whatever the file holds
  json    an object a line: {"value": …, "key": "…", "headers": {"name": "…"}, "timestamp": "2006-01-02T15:04:05Z"}; a value that is no
          string is stored as its JSON text; valueData and keyData hold bytes as base64

A line that is longer than the topic's largest batch (1MiB unless altered, 8MiB at most) ends the command: what was before it is stored,
nothing after it is sent.

Records without a key that come from one file all go to one partition, so that they keep the order of the file. Records with a key go to
the partition of their key.`

func (p *program) produce() *cobra.Command {
	o := &produceOptions{}
	cmd := &cobra.Command{
		Use:     "produce TOPIC [VALUE]",
		Aliases: []string{"pub"},
		Short:   "Publish records",
		Long:    produceLong,
		Example: `  sq produce orders hello
  sq produce orders -f orders.log --format raw
  sq consume orders -o json | sq produce copy --format json`,
		Args:              takes,
		ValidArgsFunction: p.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 2 && o.file != "" {
				return usagef("VALUE and --file exclude each other")
			}
			return p.runProduce(cmd, args, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.file, "file", "f", "", "read records from this file; - is standard input, which is also read where there is no VALUE")
	o.format = record.Lines
	f.Var(value.OneOf{To: &o.format, Legal: []string{record.Lines, record.Raw, record.JSON}}, "format", "lines, raw or json")
	f.StringVar(&o.key, "key", "", "key of all records that bring none")
	f.StringArrayVar(&o.headers, "header", nil, "name=value, added to all records; may be repeated")
	f.IntVar(&o.partition, "partition", -1, "partition of all records, whatever their keys")
	f.Var(value.Bytes{To: &o.batchBytes}, "batch-bytes", "largest batch before compression, 1KiB to 8MiB; the topic's own limit bounds it too")
	o.linger = sq.DefaultLinger
	f.DurationVar(&o.linger, "linger", o.linger, "how long a batch waits for more records")
	o.codec = sq.None.String()
	f.Var(value.OneOf{To: &o.codec, Legal: []string{sq.None.String(), sq.S2.String(), sq.LZ4.String(), sq.Zstd.String()}}, "codec", "compression: none, s2, lz4 or zstd")
	outputFlag(cmd, &o.output)
	return cmd
}

func (p *program) runProduce(cmd *cobra.Command, args []string, o *produceOptions) error {
	base, err := o.base(cmd.Flags().Changed("key"))
	if err != nil {
		return err
	}
	var next func() (sq.Record, error)
	size := int64(0)
	if len(args) < 2 {
		in, bytes, closeIn, err := p.input(o.file)
		if err != nil {
			return err
		}
		defer closeIn()
		next, size = o.source(in, base), bytes
	}
	ctx := cmd.Context()
	client, err := p.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	producer, err := o.producer(client, p.topicName(args[0]))
	if err != nil {
		return err
	}
	if next == nil {
		base.Value = []byte(args[1])
		return p.produceOne(ctx, producer, args[0], base, o)
	}
	return p.produceAll(ctx, producer, args[0], next, size, o)
}

// base is what all records have in common.
func (o *produceOptions) base(keyed bool) (sq.Record, error) {
	var r sq.Record
	if o.partition < -1 {
		return r, usagef("--partition: %d is negative", o.partition)
	}
	if keyed {
		r.Key = []byte(o.key)
	}
	for _, header := range o.headers {
		name, value, ok := strings.Cut(header, "=")
		if !ok {
			return r, usagef("--header %q is not name=value", header)
		}
		r.Headers = append(r.Headers, sq.Header{Key: name, Value: []byte(value)})
	}
	return r, nil
}

// input opens what is read from. size is 0 where it is not known.
func (p *program) input(file string) (in io.Reader, size int64, closeIn func(), err error) {
	if file == "" || file == "-" {
		if p.env.StdinTerminal && file == "" {
			fmt.Fprintln(p.env.Stderr, "Reading records from the terminal, one a line. End with Ctrl-D.")
		}
		return p.env.Stdin, 0, func() {}, nil
	}
	opened, err := os.Open(file)
	if err != nil {
		return nil, 0, nil, fmt.Errorf("read records: %w", err)
	}
	if info, err := opened.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return opened, size, func() { _ = opened.Close() }, nil
}

// source gives the records of a stream one by one; their bytes are valid until the next call.
func (o *produceOptions) source(in io.Reader, base sq.Record) func() (sq.Record, error) {
	lines := line.NewScanner(in, o.format == record.Raw, batch.MaxBytes)
	count := 0
	return func() (sq.Record, error) {
		text, err := lines.Next()
		if err != nil {
			return sq.Record{}, err
		}
		count++
		if o.format != record.JSON {
			r := base
			r.Value = text
			return r, nil
		}
		r, err := record.ReadJSON(text)
		if err != nil {
			return r, fmt.Errorf("line %d: %w", count, err)
		}
		if r.Key == nil {
			r.Key = base.Key
		}
		r.Headers = append(r.Headers, base.Headers...)
		return r, nil
	}
}

func (o *produceOptions) producer(client *sq.Client, topic string) (*sq.Producer, error) {
	codec, err := batch.ParseCodec(o.codec)
	if err != nil {
		return nil, usagef("--codec: %w", err)
	}
	size := int64(batch.MaxBytes) // the topic's limit is the smaller one
	if o.batchBytes != 0 {
		size = o.batchBytes
	}
	if size < 1<<10 || size > batch.MaxBytes {
		return nil, usagef("--batch-bytes: %d is outside 1KiB to 8MiB", size)
	}
	if o.linger < 0 || o.linger > sq.MaxLinger {
		return nil, usagef("--linger: %v is outside 0s to %v", o.linger, sq.MaxLinger)
	}
	return client.Producer(topic, sq.Compression(codec), sq.BatchBytes(int(size)), sq.Linger(o.linger)), nil
}

func (p *program) produceOne(ctx context.Context, producer *sq.Producer, topic string, r sq.Record, o *produceOptions) error {
	start := p.env.Now()
	answered := p.waiting(p.addr)
	ack, err := producer.Send(ctx, r, o.send()...)
	answered()
	if err != nil {
		return err
	}
	took := p.env.Now().Sub(start)
	if o.output == outputJSON {
		return json.NewEncoder(p.env.Stdout).Encode(map[string]any{
			"topic": topic, "partition": ack.Partition, "offset": ack.Offset, "durability": ack.Durability.String(), "duplicate": ack.Duplicate,
			"millis": float64(took.Microseconds()) / 1000,
		})
	}
	_, err = fmt.Fprintf(p.env.Stdout, "%s/%d@%d  %s  %.1f ms\n", topic, ack.Partition, ack.Offset, ack.Durability, float64(took.Microseconds())/1000)
	return err
}

// send gives the options for each record.
func (o *produceOptions) send() []sq.SendOption {
	if o.partition < 0 {
		return nil
	}
	return []sq.SendOption{sq.ToPartition(o.partition)}
}
