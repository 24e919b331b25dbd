// Command sq is the command line of SQ.
package main

import (
	"context"
	"os"
	"time"

	"github.com/mattn/go-isatty"

	"github.com/seedqueue/sq/cli/internal/command"
)

func main() {
	os.Exit(command.Run(context.Background(), command.Env{
		Args: os.Args[1:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StderrTerminal: isatty.IsTerminal(os.Stderr.Fd()), StdinTerminal: isatty.IsTerminal(os.Stdin.Fd()), Now: time.Now,
	}))
}
