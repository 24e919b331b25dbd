package command

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/cli/internal/inspect"
)

const inspectLong = `Look at the files of a broker's data directory. Nothing is written or locked; the files of a running broker can be read.

  <data dir>/ident                                whose directory it is
  <data dir>/journal/                             what was promised, and how far each log is durable
  <data dir>/replicas/<replica>/log/<base>.log    a segment, with its index (.idx) and snapshot (.snap)

The data directory of 'sq dev' is .sq/broker-1.`

func (p *program) inspect() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inspect",
		Short: "Look at a broker's files, and check them for damage",
		Long:  inspectLong,
		Args:  takesCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return usagef("%s needs a command", cmd.CommandPath()) },
	}
	cmd.AddCommand(p.inspectSegment(), p.inspectIndex(), p.inspectJournal(), p.inspectSnapshot(), p.inspectVerify())
	return cmd
}

// inspectFile makes a command that shows one file.
func (p *program) inspectFile(cmd *cobra.Command, show func(*cobra.Command, inspect.Printer, *inspect.Place) error) *cobra.Command {
	var output string
	cmd.Args = takes
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		place, err := inspect.Open(args[0])
		if err != nil {
			return usageError{err}
		}
		defer func() { _ = place.Close() }()
		return show(cmd, inspect.Printer{Out: p.env.Stdout, JSON: output == outputJSON}, place)
	}
	outputFlag(cmd, &output)
	return cmd
}

func (p *program) inspectSegment() *cobra.Command {
	var raw bool
	cmd := p.inspectFile(&cobra.Command{
		Use:   "segment FILE",
		Short: "Show the batches of a segment",
		Long: `Show the batches of a segment, one a line: where they are, when and in which epoch they were appended, what they hold. Control batches are
taken apart. -o json gives one object a line. A place that is no batch ends it, with exit code 1; behind the end of a segment that a running
broker writes, such a place is no fault.

--raw copies the batches as they are, up to where the log ends. That is what 'capnp decode' reads: an open segment has more bytes than batches.`,
		Example: `  sq inspect segment .sq/broker-1/replicas/*/log/00000000000000000000.log
  sq inspect segment 00000000000000000000.log -o json | jq 'select(.control == "seal")'
  sq inspect segment 00000000000000000000.log --raw | capnp decode proto/capnp/batch.capnp Batch`,
	}, func(cmd *cobra.Command, out inspect.Printer, place *inspect.Place) error {
		show := out.Segment
		if raw {
			show = out.Raw
		}
		err := show(cmd.Context(), place, place.Path)
		if bad, ok := errors.AsType[*inspect.BadError](err); ok && place.Active {
			fmt.Fprintf(p.env.Stderr, "sq: %v; a broker is using the directory and may be writing there\n", bad)
			return nil
		} else if ok {
			return &damagedError{err: err, path: cmd.Flags().Arg(0)}
		}
		return err
	})
	cmd.Flags().BoolVar(&raw, "raw", false, "copy the batches as they are")
	cmd.MarkFlagsMutuallyExclusive("raw", "output")
	return cmd
}

// damagedError is damage that was met on the way.
type damagedError struct {
	err  error
	path string
}

func (e *damagedError) Error() string { return e.err.Error() }
func (e *damagedError) Unwrap() error { return e.err }

func (p *program) inspectIndex() *cobra.Command {
	return p.inspectFile(&cobra.Command{
		Use:     "index FILE",
		Short:   "Show the index of a segment",
		Example: "  sq inspect index .sq/broker-1/replicas/*/log/00000000000000000000.idx",
	}, func(_ *cobra.Command, out inspect.Printer, place *inspect.Place) error {
		return out.Index(place, place.Path)
	})
}

func (p *program) inspectJournal() *cobra.Command {
	return p.inspectFile(&cobra.Command{
		Use:   "journal DIR|FILE",
		Short: "Show the records of a disk's journal: what was promised, and how far each log is durable",
		Example: `  sq inspect journal .sq/broker-1/journal
  sq inspect journal .sq/broker-1/journal -o json | jq 'select(.kind == "faults")'`,
	}, func(_ *cobra.Command, out inspect.Printer, place *inspect.Place) error {
		return out.Journal(place, place.Path)
	})
}

func (p *program) inspectSnapshot() *cobra.Command {
	return p.inspectFile(&cobra.Command{
		Use:     "snapshot FILE",
		Short:   "Show what a sealed segment was sealed with, and the state of its partition there",
		Example: "  sq inspect snapshot .sq/broker-1/replicas/*/log/00000000000000000000.snap",
	}, func(_ *cobra.Command, out inspect.Printer, place *inspect.Place) error {
		return out.Snapshot(place, place.Path)
	})
}

const verifyLong = `Check a broker's data directory, the directory of one replica, or one segment, without changing anything: identity, journal, and of every
segment the framing, both checksums of every batch, chain and contiguity, and that index, snapshot and Seals agree with it.

Damage has a class:
  torn     the end of a write that was never acknowledged here; the next start cuts it
  suspect  nothing proves whether it was acknowledged; the next start keeps it until the log goes on without it
  corrupt  it was durable and is damaged; the broker keeps and reports it

While a broker uses the directory, its newest bytes are not judged, and the report says so.

Exit codes: 0 clean, 1 damage, 2 not understood.`

func (p *program) inspectVerify() *cobra.Command {
	var output string
	var quick bool
	cmd := &cobra.Command{
		Use:   "verify DIR|FILE",
		Short: "Check a data directory for damage, offline",
		Long:  verifyLong,
		Example: `  sq inspect verify .sq
  sq inspect verify /var/lib/sq --quick
  sq inspect verify /var/lib/sq/replicas/*/log/00000000000000000000.log -o json`,
		Args: takes,
		RunE: func(cmd *cobra.Command, args []string) error {
			reports, err := inspect.Verify(cmd.Context(), args[0], quick)
			if err != nil && cmd.Context().Err() == nil {
				return usageError{err} // there is nothing to check: that is no damage
			} else if err != nil {
				return err
			}
			if err := (inspect.Printer{Out: p.env.Stdout, JSON: output == outputJSON}).Reports(reports); err != nil {
				return err
			}
			if n := inspect.Damaged(reports); n > 0 {
				return fmt.Errorf("%s in %s", places(n), args[0])
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&quick, "quick", false, "read the headers of batches only: no bodies, no digests")
	outputFlag(cmd, &output)
	return cmd
}

func places(n int) string {
	if n == 1 {
		return "1 bad place"
	}
	return fmt.Sprintf("%d bad places", n)
}
