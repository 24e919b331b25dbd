// Command sq-tierer runs a tierer until SIGTERM or SIGINT.
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
	"github.com/seedqueue/sq/services/tierer"
)

const program = "sq-tierer"

func main() {
	cfg, err := config.Load(program, os.Args[1:], os.Environ(), tierer.Defaults())
	code := 2
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		err, code = run(ctx, cfg), 1
		stop()
	}
	if err != nil && !errors.Is(err, config.ErrDone) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(code)
	}
}

func run(ctx context.Context, cfg tierer.Config) (err error) {
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: program, Instance: cfg.NodeID, Version: version.Version(), LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat, Out: os.Stderr,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tel.Shutdown(context.WithoutCancel(ctx))) }()
	store, err := etcdstore.New(etcdstore.Config{Endpoints: cfg.Etcd})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	hostname, _ := os.Hostname() // only for what is advertised, which a flag can say too
	deps := tierer.Deps{
		Clock: clock.Real(), Network: tcpnet.New(), Store: store, Log: tel.Log, Metrics: tel.Registry, Tracers: tel.Tracers,
		Rand: rand.Reader, Version: version.Version(), Hostname: hostname,
	}
	return tierer.Main(ctx, cfg, deps)
}
