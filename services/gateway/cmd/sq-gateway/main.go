// Command sq-gateway runs a gateway until SIGTERM or SIGINT.
package main

import (
	"context"
	"os"

	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/process"
	"github.com/seedqueue/sq/services/gateway"
)

func main() { os.Exit(process.Main("sq-gateway", gateway.Defaults(), run)) }

func run(ctx context.Context, cfg gateway.Config, deps node.Deps) error {
	g, err := gateway.New(ctx, cfg, deps)
	if err != nil {
		return err
	}
	return g.Run(ctx)
}
