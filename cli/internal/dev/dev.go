package dev

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/transport/tcpnet"
	"github.com/seedqueue/sq/libs/version"
	"github.com/seedqueue/sq/services/allinone"
)

// service names this process in logs and traces.
const service = "sq-dev"

// Config is what a user sets.
type Config struct {
	// Brokers of it may be 0: as many as the directory has, 1 where it has none.
	allinone.Config

	// DataDir holds everything.
	DataDir string
	// Memory keeps everything in memory instead.
	Memory bool
	// LogLevel and LogFormat of the log.
	LogLevel, LogFormat string
}

// Defaults of a Config.
func Defaults() Config {
	cfg := Config{Config: allinone.Defaults(), DataDir: ".sq", LogLevel: "warn", LogFormat: "text"}
	cfg.Brokers = 0
	return cfg
}

// Validate names the first field that is wrong, and what is legal.
func (c Config) Validate() error {
	if c.Brokers == 0 {
		c.Brokers = 1
	}
	return c.Config.Validate() //nolint:wrapcheck // names the field.
}

// readyTimeout bounds the wait for the services after the start; a large log is recovered in it.
const readyTimeout = 5 * time.Minute

// Run runs SQ until ctx ends. It tells on out what it listens on and when it is ready, and logs to log.
func Run(ctx context.Context, cfg Config, out, log io.Writer) (err error) {
	start := time.Now()
	tel, err := telemetry.New(ctx, telemetry.Config{
		Service: service, Instance: service, Version: version.Version(), LogLevel: cfg.LogLevel, LogFormat: cfg.LogFormat, Out: log,
	})
	if err != nil {
		return err //nolint:wrapcheck // names the setting.
	}
	defer func() { err = errors.Join(err, tel.Shutdown(context.WithoutCancel(ctx))) }()
	kept, err := open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.close()) }()
	if cfg.Brokers, err = brokers(cfg.Brokers, kept.brokers, cfg.DataDir); err != nil {
		return err
	}
	all, err := allinone.New(ctx, cfg.Config, allinone.Deps{
		Clock: clock.Real(), Store: kept.topology, Bucket: kept.bucket, Disk: kept.disk, Spool: kept.spool, Outside: tcpnet.New(),
		Log: tel.Log, Metrics: tel.Registry, Tracers: tel.Tracers, Rand: rand.Reader, Version: version.Version(),
	})
	if err != nil {
		return err //nolint:wrapcheck // names the service.
	}
	return serve(ctx, cfg, all, kept.failed, out, start)
}

func open(ctx context.Context, cfg Config) (*stores, error) {
	if cfg.Memory {
		return inMemory(), nil
	}
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find the data directory: %w", err)
	}
	return onDisk(ctx, dir)
}

// brokers gives how many run: as many as wanted, but none of those that the directory has may be missing, since partitions are on it.
func brokers(wanted, there int, dir string) (int, error) {
	switch {
	case wanted == 0:
		return max(there, 1), nil
	case wanted < there:
		return 0, fault.Errorf(fault.Invalid, "brokers: %s has the data of %d brokers: run with --brokers %d, or without --brokers; "+
			"or name another --data-dir", dir, there, there)
	default:
		return wanted, nil
	}
}

// serve runs the services, and ends with them, with ctx, or with a store that fails.
func serve(ctx context.Context, cfg Config, all *allinone.AllInOne, failed <-chan error, out io.Writer, start time.Time) error {
	greet(out, cfg, all.Addrs())
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ended := make(chan error, 1)
	go func() { ended <- all.Run(running) }()
	ready := make(chan error, 1)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	waiting.Go(func() {
		timed, cancel := context.WithTimeout(running, readyTimeout)
		defer cancel()
		ready <- all.WaitReady(timed)
	})
	for {
		select {
		case err := <-ready:
			switch {
			case err == nil:
				fmt.Fprintf(out, "ready in %d ms\n", time.Since(start).Milliseconds())
			case running.Err() == nil:
				stop(fmt.Errorf("not ready within %v: %w", readyTimeout, err))
			}
		case err := <-failed:
			failed = nil
			stop(fmt.Errorf("embedded etcd ended: %w", err))
		case err := <-ended:
			stop(nil)
			if ctx.Err() == nil && running.Err() != nil && !errors.Is(context.Cause(running), context.Canceled) {
				err = errors.Join(context.Cause(running), err)
			}
			return err
		}
	}
}

// greet says what is where, and what an ack means.
func greet(out io.Writer, cfg Config, addrs node.Addrs) {
	where := "data in " + cfg.DataDir
	ack := "an ack means fsync-quorum: on the disks of a majority of the replicas, and every partition has one"
	if cfg.Brokers >= 3 {
		ack = "an ack means fsync-quorum: synced by a majority of the replicas; a new topic has 3, and here all are on one disk"
	}
	switch {
	case cfg.Memory:
		where, ack = "data in memory", "nothing survives this process (--memory), whatever an ack says"
	case cfg.SyncPolicy != allinone.Defaults().SyncPolicy:
		ack = "an ack means written, not fsynced (--sync-policy " + cfg.SyncPolicy + "): a power cut can lose acknowledged records"
	}
	brokers := "1 broker"
	if cfg.Brokers > 1 {
		brokers = fmt.Sprintf("%d brokers", cfg.Brokers)
	}
	fmt.Fprintf(out, "SQ %s in one process: %s, %s\n", version.Version(), brokers, where)
	fmt.Fprintf(out, "  data      %s  (Cap'n Proto: sq produce, sq consume, SDK)\n", addrs.Capnp)
	fmt.Fprintf(out, "  control   %s  (gRPC: sq topic)\n", addrs.GRPC)
	fmt.Fprintf(out, "  REST      http://%s  (/v1/topics, /docs)\n", addrs.HTTP)
	if addrs.Admin != "" {
		fmt.Fprintf(out, "  metrics   http://%s/metrics\n", addrs.Admin)
	}
	fmt.Fprintf(out, "  %s\n", ack)
}
