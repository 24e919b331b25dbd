// Command sq-coordinator runs a coordinator until SIGTERM or SIGINT.
package main

import (
	"context"
	"os"

	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/process"
	"github.com/seedqueue/sq/services/coordinator"
)

func main() { os.Exit(process.Main("sq-coordinator", coordinator.Defaults(), run)) }

func run(ctx context.Context, cfg coordinator.Config, deps node.Deps) error {
	c, err := coordinator.New(ctx, cfg, deps)
	if err != nil {
		return err
	}
	return c.Run(ctx)
}
