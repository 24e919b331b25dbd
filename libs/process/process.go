package process

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
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology/etcdstore"
	"github.com/seedqueue/sq/libs/transport/tcpnet"
	"github.com/seedqueue/sq/libs/version"
)

// Settings are a service's configuration.
type Settings interface {
	// Common is node.Config's, embedded.
	Common() node.Config
	// Instance tells the processes of a service apart in logs and traces; "" = not given.
	Instance() string
}

// Main reads the settings of a program, runs the service until a signal comes, and gives the exit code.
func Main[S Settings](program string, defaults S, run func(context.Context, S, node.Deps) error) int {
	cfg, err := config.Load(program, os.Args[1:], os.Environ(), defaults)
	code := 2
	if err == nil {
		err, code = within(program, cfg, run), 1
	}
	if err == nil || errors.Is(err, config.ErrDone) {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
	return code
}

// within runs the service between the opening of what it needs and its closing.
func within[S Settings](program string, cfg S, run func(context.Context, S, node.Deps) error) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	defer context.AfterFunc(ctx, stop)() // a second signal ends the process at once
	common := cfg.Common()
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: program, Instance: cfg.Instance(), Version: version.Version(), LogLevel: common.LogLevel, LogFormat: common.LogFormat, Out: os.Stderr,
	})
	if err != nil {
		return err //nolint:wrapcheck // says what was attempted.
	}
	defer func() { err = errors.Join(err, tel.Shutdown(context.WithoutCancel(ctx))) }()
	store, err := etcdstore.New(etcdstore.Config{Endpoints: common.Etcd})
	if err != nil {
		return err //nolint:wrapcheck // says what was attempted.
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	hostname, _ := os.Hostname() // only for what is advertised, which a flag can say too
	return run(ctx, cfg, node.Deps{
		Clock: clock.Real(), Network: tcpnet.New(), Store: store, Log: tel.Log, Metrics: tel.Registry, Tracers: tel.Tracers,
		Rand: rand.Reader, Version: version.Version(), Hostname: hostname,
	})
}
