// Command sq-broker runs a broker until SIGTERM or SIGINT.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/config"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology/etcdstore"
	"github.com/seedqueue/sq/libs/transport/tcpnet"
	"github.com/seedqueue/sq/libs/version"
	"github.com/seedqueue/sq/libs/vfs/osfs"
	"github.com/seedqueue/sq/services/broker"
)

const program = "sq-broker"

func main() {
	cfg, err := config.Load(program, os.Args[1:], os.Environ(), broker.Defaults())
	code := 2
	if err == nil {
		err, code = run(cfg), 1
	}
	if err != nil && !errors.Is(err, config.ErrDone) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(code)
	}
}

func run(cfg broker.Config) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	tel, telErr := telemetry.New(ctx, telemetry.Config{
		Service: program, Instance: fmt.Sprint(cfg.NodeID), Version: version.Version(), LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat, Out: os.Stderr,
	})
	dir, dirErr := osfs.New(cfg.DataDir)
	store, storeErr := etcdstore.New(etcdstore.Config{Endpoints: cfg.Etcd})
	if err := errors.Join(telErr, dirErr, storeErr); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close(), dir.Close(), tel.Shutdown(context.WithoutCancel(ctx))) }()
	hostname, _ := os.Hostname() // only for what is advertised, which a flag can say too
	b, err := broker.New(ctx, cfg, broker.Deps{
		Clock: clock.Real(), FS: dir, Network: tcpnet.New(), Store: store, Log: tel.Log, Metrics: tel.Registry, Tracers: tel.Tracers,
		Rand: rand.Reader, Version: version.Version(), Hostname: hostname,
	})
	if err == nil {
		err = b.Run(ctx)
	}
	return err
}
