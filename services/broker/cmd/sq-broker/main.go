// Command sq-broker runs a broker until SIGTERM or SIGINT.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/process"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/services/broker"
)

func main() { os.Exit(process.Main("sq-broker", broker.Defaults(), run)) }

func run(ctx context.Context, cfg broker.Config, deps node.Deps) (err error) {
	dir, err := osfs.New(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dir.Close()) }()
	b, err := broker.New(ctx, cfg, broker.Deps{Deps: deps, FS: dir})
	if err != nil {
		return err
	}
	return b.Run(ctx)
}
