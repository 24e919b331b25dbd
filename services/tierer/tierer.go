package tierer

import (
	"context"
	"errors"
	"net"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// Tierer is one tierer process.
type Tierer struct {
	cfg   Config
	deps  Deps
	capnp net.Listener
	http  net.Listener
	admin net.Listener // nil = none
	parts parts
	// joined is the cluster's identity; nil = not known yet. It never changes.
	joined     atomic.Pointer[topology.Cluster]
	registered atomic.Bool
}

// Addrs are the addresses a tierer listens on, as host:port; Admin is "" where there is none.
type Addrs struct {
	Capnp, HTTP, Admin string
}

// New binds the listeners. Nothing is served before Run, which closes them.
func New(ctx context.Context, cfg Config, deps Deps) (_ *Tierer, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Tierer{cfg: cfg, deps: deps}
	defer func() {
		if err != nil {
			t.closeListeners()
		}
	}()
	if t.capnp, err = t.listen(ctx, "capnp-host", cfg.CapnpHost); err != nil {
		return nil, err
	}
	if t.http, err = t.listen(ctx, "http-host", cfg.HTTPHost); err != nil {
		return nil, err
	}
	if cfg.AdminHost != "" {
		if t.admin, err = t.listen(ctx, "admin-host", cfg.AdminHost); err != nil {
			return nil, err
		}
	}
	if t.parts, err = t.wire(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Tierer) listen(ctx context.Context, field, address string) (net.Listener, error) {
	lis, err := t.deps.Network.Listen(ctx, address)
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "%s: listen on %s: %w", field, address, err)
	}
	return lis, nil
}

func (t *Tierer) closeListeners() {
	for _, lis := range []net.Listener{t.capnp, t.http, t.admin} {
		if lis != nil {
			_ = lis.Close() // that it was closed before is all that can be wrong
		}
	}
}

// Addrs tells where the tierer listens.
func (t *Tierer) Addrs() Addrs {
	addrs := Addrs{Capnp: t.capnp.Addr().String(), HTTP: t.http.Addr().String()}
	if t.admin != nil {
		addrs.Admin = t.admin.Addr().String()
	}
	return addrs
}

// Ready is nil when the tierer has joined its cluster, is known to the gateways and reaches its bucket.
func (t *Tierer) Ready() error {
	switch {
	case t.joined.Load() == nil:
		return fault.Errorf(fault.Unavailable, "etcd did not tell the cluster's identity yet")
	case t.parts.follower.View().Revision == 0:
		return fault.Errorf(fault.Unavailable, "etcd did not tell the topology yet")
	case !t.registered.Load():
		return fault.Errorf(fault.Unavailable, "the tierer is not registered in etcd yet")
	default:
		return t.parts.monitor.Ready() //nolint:wrapcheck // says what is missing.
	}
}

// cluster is the cluster's identity; the parts that ask run only after it is known.
func (t *Tierer) cluster() partition.UUID {
	if joined := t.joined.Load(); joined != nil {
		return joined.ID
	}
	return partition.UUID{}
}

// Run serves until ctx ends and then drains. It returns an error where the tierer cannot go on: another cluster's etcd, another process
// under its name, or a listener that broke.
func (t *Tierer) Run(ctx context.Context) error {
	defer t.closeListeners()
	var parts []lifecycle.Part
	if t.admin != nil {
		parts = append(parts, lifecycle.Part{Name: "admin", Run: func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, t.deps.Log, t.admin, telemetry.AdminHandler(t.deps.Metrics))
		}})
	}
	health := telemetry.HealthHandler(telemetry.Health{
		Ready: t.Ready, Service: "sq-tierer", Instance: t.live().ID, Version: t.deps.Version,
	})
	parts = append(parts,
		lifecycle.Part{Name: "health", Run: func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, t.deps.Log, t.http, health)
		}},
		lifecycle.Part{Name: "follower", Run: t.parts.follower.Run},
		lifecycle.Part{Name: "member", Run: t.member},
	)
	return fault.Wrap("run tierer", lifecycle.Run(ctx, t.deps.Log, parts...))
}

// member joins the cluster and then does a tierer's work.
func (t *Tierer) member(ctx context.Context) error {
	if err := t.join(ctx); err != nil || t.joined.Load() == nil {
		return errors.Join(err, t.parts.close())
	}
	err := lifecycle.Run(ctx, t.deps.Log,
		lifecycle.Part{Name: "bucket", Run: t.parts.monitor.Run},
		lifecycle.Part{Name: "exporter", Run: t.parts.exporter.Run},
		lifecycle.Part{Name: "pruner", Run: t.parts.pruner.Run},
		lifecycle.Part{Name: "harvester", Run: t.parts.harvester.Run},
		lifecycle.Part{Name: "data port", Run: t.serve},
		lifecycle.Part{Name: "registration", Run: t.register},
	)
	return errors.Join(err, t.parts.close())
}

// close ends what the parts have open when nothing runs any more.
func (p *parts) close() error {
	p.api.Wait()
	p.reader.Close()
	return p.leaders.Close() //nolint:wrapcheck // says what it closes.
}

// join finds or makes the cluster's identity, as soon as etcd answers.
func (t *Tierer) join(ctx context.Context) error {
	want, err := t.cfg.cluster()
	if err != nil {
		return err
	}
	for silent := false; ctx.Err() == nil; {
		cluster, err := topology.Bootstrap(ctx, t.deps.Store, want, t.deps.Clock, t.parts.newUUID)
		switch {
		case err == nil:
			t.deps.Log.Info("joined cluster", "cluster", cluster.Value.ID.String())
			t.joined.Store(&cluster.Value)
			return nil
		case !errors.Is(err, topology.ErrUnavailable):
			return err //nolint:wrapcheck // says what was attempted.
		case !silent && ctx.Err() == nil:
			t.deps.Log.Warn("etcd does not answer, waiting for it", "etcd", t.cfg.Etcd, "err", err)
			silent = true
		}
		_ = backoff.Sleep(ctx, t.deps.Clock, joinRetry) // the loop looks at ctx
	}
	return nil
}

// register makes the tierer known and keeps it so until ctx ends; then it takes it back, so that gateways ask others.
func (t *Tierer) register(ctx context.Context) error {
	live := t.live()
	params := topology.RegisterParams{Key: topology.TiererLiveKey(live.ID), Live: live, TTL: t.cfg.LeaseTTL}
	for ctx.Err() == nil {
		registration, err := topology.Register(ctx, t.deps.Store, params)
		if err != nil {
			if fault.Is(err, fault.Conflict) {
				return err //nolint:wrapcheck // says what was attempted.
			}
			if ctx.Err() == nil {
				t.deps.Log.Warn("cannot register, trying again", "err", err)
			}
			_ = backoff.Sleep(ctx, t.deps.Clock, joinRetry) // the loop looks at ctx
			continue
		}
		t.registered.Store(true)
		err = registration.Keep(ctx, t.deps.Clock, t.deps.Log)
		t.registered.Store(false)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		if closeErr := registration.Close(closing); closeErr != nil {
			t.deps.Log.Debug("lease left to run out", "err", closeErr)
		}
		return err //nolint:wrapcheck // says what was attempted.
	}
	return nil
}

// serve serves cold reads until ctx ends, then says goAway and drains.
func (t *Tierer) serve(ctx context.Context) error {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	served := make(chan error, 1)
	go func() { served <- t.parts.server.Serve(life, t.capnp) }()
	select {
	case err := <-served:
		return fault.Wrap("serve cold reads", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(life, drainTimeout)
	defer cancel()
	_ = t.parts.server.Shutdown(drain) // that it took too long is all that can be wrong
	return fault.Wrap("serve cold reads", <-served)
}

// accept judges a Hello: the data port is for gateways and tools of the same cluster.
func (t *Tierer) accept(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
	own := t.cluster().String()
	if hello.ClusterID != "" && hello.ClusterID != own {
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_wrongCluster, "this tierer belongs to cluster %s, not %s", own, hello.ClusterID)
	}
	return frame.ServerInfo{ClusterID: own, Software: t.deps.Version}, nil
}
