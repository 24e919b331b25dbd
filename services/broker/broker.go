package broker

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/ident"
	"github.com/seedqueue/sq/services/broker/internal/roster"
)

// Broker is one broker process.
type Broker struct {
	cfg      Config
	deps     Deps
	lock     io.Closer // of the data directory
	capnp    net.Listener
	http     net.Listener
	admin    net.Listener // nil = none
	follower *topology.Follower
	roster   atomic.Pointer[roster.Roster] // nil until the broker has joined its cluster
}

// Addrs are the addresses a broker listens on, as host:port; Admin is "" where there is none.
type Addrs struct {
	Capnp, HTTP, Admin string
}

// New locks the data directory and binds the listeners. Nothing is served before Run, which closes them; a Broker that is not run must be
// closed. Errors: Invalid (the configuration), DataDirInUse, WrongCluster and Conflict (another's directory), Unavailable (an address).
func New(ctx context.Context, cfg Config, deps Deps) (_ *Broker, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, deps: deps, follower: topology.NewFollower(deps.Store, deps.Log, deps.Clock)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.lock, err = ident.Lock(deps.FS); err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	cluster, err := cfg.cluster()
	if err != nil {
		return nil, err
	}
	if err := ident.Check(deps.FS, cluster, cfg.node()); err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	if b.capnp, err = b.listen(ctx, "capnp-host", cfg.CapnpHost); err != nil {
		return nil, err
	}
	if b.http, err = b.listen(ctx, "http-host", cfg.HTTPHost); err != nil {
		return nil, err
	}
	if cfg.AdminHost != "" {
		if b.admin, err = b.listen(ctx, "admin-host", cfg.AdminHost); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *Broker) listen(ctx context.Context, field, address string) (net.Listener, error) {
	listener, err := b.deps.Network.Listen(ctx, address)
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "%s: listen on %s: %w", field, address, err)
	}
	return listener, nil
}

// Close gives back what New took, where Run is not called. Run does it itself.
func (b *Broker) Close() error {
	for _, listener := range []net.Listener{b.capnp, b.http, b.admin} {
		if listener != nil {
			_ = listener.Close() // that it was closed before is all that can be wrong
		}
	}
	if b.lock == nil {
		return nil
	}
	err := b.lock.Close()
	b.lock = nil
	return fault.Wrap("unlock data directory", err)
}

// Addrs tells where the broker listens.
func (b *Broker) Addrs() Addrs {
	addrs := Addrs{Capnp: b.capnp.Addr().String(), HTTP: b.http.Addr().String()}
	if b.admin != nil {
		addrs.Admin = b.admin.Addr().String()
	}
	return addrs
}

// Ready is nil when the broker has joined its cluster and every partition that it leads is active.
func (b *Broker) Ready() error {
	roster := b.roster.Load()
	if roster == nil {
		return fault.Errorf(fault.Unavailable, "the broker has not joined its cluster: etcd (%v) has not answered yet", b.cfg.Etcd)
	}
	return roster.Ready() //nolint:wrapcheck // says what is missing.
}

// Run serves until ctx ends, and then stops in order (doc.go 5). It returns an error where the broker cannot go on: another cluster's etcd, a
// later life of the same broker (Conflict), a disk that failed (DiskPoisoned), a listener that broke.
func (b *Broker) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, b.Close()) }()
	addrs := b.Addrs()
	b.deps.Log.Info("broker listens", "capnp", addrs.Capnp, "http", addrs.HTTP, "admin", addrs.Admin, "dir", b.deps.FS.Name("."))
	health := telemetry.HealthHandler(telemetry.Health{
		Ready: b.Ready, Service: "sq-broker", Instance: b.live().ID, Version: b.deps.Version,
	})
	parts := []lifecycle.Part{
		{Name: "health", Run: func(ctx context.Context) error { return telemetry.ServeHTTP(ctx, b.deps.Log, b.http, health) }},
		{Name: "follower", Run: b.follower.Run},
		{Name: "partitions", Run: b.serve},
	}
	if b.admin != nil {
		parts = append([]lifecycle.Part{{Name: "admin", Run: func(ctx context.Context) error {
			return telemetry.ServeHTTP(ctx, b.deps.Log, b.admin, telemetry.AdminHandler(b.deps.Metrics))
		}}}, parts...)
	}
	return fault.Wrap("run broker", lifecycle.Run(ctx, b.deps.Log, parts...))
}
