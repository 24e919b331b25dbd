// Command sq-tierer runs a tierer until SIGTERM or SIGINT.
package main

import (
	"context"
	"os"

	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/process"
	"github.com/seedqueue/sq/services/tierer"
)

func main() { os.Exit(process.Main("sq-tierer", tierer.Defaults(), run)) }

func run(ctx context.Context, cfg tierer.Config, deps node.Deps) error {
	return tierer.Main(ctx, cfg, tierer.Deps{Deps: deps})
}
