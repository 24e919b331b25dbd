package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/seedqueue/sq/libs/version"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

const (
	defaultAddr = "localhost:6064"
	defaultAPI  = "localhost:6060"
)

// program is one run of sq.
type program struct {
	env       *Env
	addr      string
	api       string
	namespace string
	// started: flags and arguments were understood.
	started bool
}

// usageError is an error in what was typed, found after flags and arguments were parsed.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Run runs what env asks for and gives the exit code.
func Run(ctx context.Context, env Env) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process as it always does
	p := &program{env: &env}
	root := p.root() //nolint:contextcheck // commands get it when they run.
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if exit, ok := errors.AsType[exitError](err); ok {
		return exit.code
	}
	if _, usage := errors.AsType[usageError](err); usage || !p.started {
		fmt.Fprintf(env.Stderr, "sq: %v\nSee '%s --help'.\n", err, cmd.CommandPath())
		return exitUsage
	}
	fmt.Fprintf(env.Stderr, "sq: %v\n", err)
	if next := p.advice(err); next != "" {
		fmt.Fprintln(env.Stderr, next)
	}
	return exitFailed
}

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "sq",
		Short: "SQ: a durable, replicated log and queue",
		Long: `SQ: a durable, replicated log and queue.

  sq dev                     all of SQ in one process, data under ./.sq
  sq produce orders hello    publish a record
  sq consume orders          read what is there

Exit codes: 0 done, 1 failed, 2 not understood; doctor has its own.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		PersistentPreRun: func(*cobra.Command, []string) {
			p.started = true
		},
	}
	root.CompletionOptions.HiddenDefaultCmd = false
	root.Version = version.Version()
	root.SetVersionTemplate(versionText())
	plainHelp(root, p.env.Stdout)
	flags := root.PersistentFlags()
	flags.StringVar(&p.addr, "addr", p.env.lookup(defaultAddr, "SQ_ADDR"), "data address of a gateway, host:port, several with commas (SQ_ADDR)")
	flags.StringVar(&p.api, "api", p.env.lookup(defaultAPI, "SQ_API", "SQ_REST"), "control address of a gateway (gRPC), host:port, several with commas (SQ_API)")
	flags.StringVar(&p.namespace, "namespace", p.env.lookup("", "SQ_NAMESPACE"), "namespace of the topic; empty = default (SQ_NAMESPACE)")
	root.AddCommand(p.dev(), p.produce(), p.consume(), p.topic(), p.cluster(), p.admin(), p.bench(), p.inspect(), p.doctor(), p.version())
	return root
}
