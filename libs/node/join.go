package node

import (
	"context"
	"errors"
	"time"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
)

const (
	// etcdRetry is the wait before etcd is asked again.
	etcdRetry = 500 * time.Millisecond
	// revokeTimeout bounds how long a stop waits for etcd to take a registration back.
	revokeTimeout = 2 * time.Second
)

// Persist repeats a call until etcd has answered it, with more than that a lease has ended: a pause of this process does that, and the next
// call brings a new one. Where ctx has ended it returns nil.
func (d Deps) Persist(ctx context.Context, cfg Config, call func() error) error {
	for silent := false; ctx.Err() == nil; silent = true {
		err := call()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // it was told to stop.
		}
		if !errors.Is(err, topology.ErrUnavailable) && !errors.Is(err, topology.ErrLeaseNotFound) {
			return err
		}
		if !silent {
			d.Log.Warn("etcd does not answer, waiting for it", "etcd", cfg.Etcd, "err", err)
		}
		_ = backoff.Sleep(ctx, d.Clock, etcdRetry) // the loop looks at ctx
	}
	return nil
}

// Join finds or makes the cluster's identity (doc.go 3); zero where ctx has ended. Another cluster's etcd is fault.WrongCluster.
func (d Deps) Join(ctx context.Context, cfg Config) (topology.Cluster, error) {
	want, err := cfg.Cluster()
	if err != nil {
		return topology.Cluster{}, err
	}
	var found topology.Versioned[topology.Cluster]
	err = d.Persist(ctx, cfg, func() (err error) {
		found, err = topology.Bootstrap(ctx, d.Store, want, d.Clock, d.NewUUID)
		return err
	})
	if err == nil && !found.Value.ID.IsZero() {
		d.Log.Info("joined cluster", "cluster", found.Value.ID.String())
	}
	return found.Value, err
}

// Stay keeps a process known under its key until ctx ends, and then takes the registration back, so that nobody waits for it to run out.
// known is told when the others know it and when not. Another process with the key is fault.Conflict.
func (d Deps) Stay(ctx context.Context, cfg Config, key string, live topology.Live, known func(bool)) error {
	var registration *topology.Registration
	err := d.Persist(ctx, cfg, func() (err error) {
		registration, err = topology.Register(ctx, d.Store, topology.RegisterParams{Key: key, Live: live, TTL: cfg.LeaseTTL})
		return err
	})
	if err != nil || registration == nil {
		return err
	}
	known(true)
	err = registration.Keep(ctx, d.Clock, d.Log)
	known(false)
	d.TakeBack(ctx, registration)
	return fault.Wrap("keep registration", err)
}

// closer is a registration.
type closer interface {
	Close(ctx context.Context) error
}

// TakeBack ends a registration, for which ctx may have ended.
func (d Deps) TakeBack(ctx context.Context, registration closer) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	if err := registration.Close(ctx); err != nil {
		d.Log.Warn("the registration was not taken back, it runs out by itself", "err", err)
	}
}
