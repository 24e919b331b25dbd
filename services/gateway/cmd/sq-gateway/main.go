// Command sq-gateway runs a gateway until SIGTERM or SIGINT.
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
	"github.com/seedqueue/sq/services/gateway"
)

const program = "sq-gateway"

func main() {
	cfg, err := config.Load(program, os.Args[1:], os.Environ(), gateway.Defaults())
	code := 2
	if err == nil {
		err, code = run(cfg), 1
	}
	if err != nil && !errors.Is(err, config.ErrDone) {
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(code)
	}
}

func run(cfg gateway.Config) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
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
	g, err := gateway.New(ctx, cfg, gateway.Deps{
		Clock: clock.Real(), Network: tcpnet.New(), Store: store, Log: tel.Log, Metrics: tel.Registry, Tracers: tel.Tracers,
		Rand: rand.Reader, Version: version.Version(), Hostname: hostname,
	})
	if err != nil {
		return err
	}
	return g.Run(ctx)
}
