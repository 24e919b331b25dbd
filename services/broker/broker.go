package broker

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/broker/internal/disk"
	"github.com/seedqueue/sq/services/broker/internal/ident"
	"github.com/seedqueue/sq/services/broker/internal/roster"
)

// Broker is one broker process.
type Broker struct {
	cfg      Config
	deps     Deps
	lock     io.Closer // of the data directory
	ports    node.Ports
	follower *topology.Follower
	serving  atomic.Pointer[serving] // nil until the broker has joined its cluster
}

// serving is what a Broker serves with.
type serving struct {
	disk   *disk.Watch
	roster *roster.Roster
}

// New locks the data directory and binds the listeners. Nothing is served before Run, which closes them; a Broker that is not run must be
// closed. Errors: Invalid (the configuration), DataDirInUse, WrongCluster and Conflict (another's directory), Unavailable (an address).
func New(ctx context.Context, cfg Config, deps Deps) (_ *Broker, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, deps: deps, ports: cfg.ports(), follower: topology.NewFollower(deps.Store, deps.Log, deps.Clock)}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.lock, err = ident.Lock(deps.FS); err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	cluster, err := cfg.Cluster()
	if err != nil {
		return nil, err
	}
	if err := ident.Check(deps.FS, cluster, cfg.node()); err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	if err := b.ports.Listen(ctx, deps.Network); err != nil {
		return nil, err //nolint:wrapcheck // names the field.
	}
	return b, nil
}

// Close gives back what New took, where Run is not called. Run does it itself.
func (b *Broker) Close() error {
	b.ports.Close()
	if b.lock == nil {
		return nil
	}
	err := b.lock.Close()
	b.lock = nil
	return fault.Wrap("unlock data directory", err)
}

// Addrs tells where the broker listens.
func (b *Broker) Addrs() node.Addrs { return b.ports.Addrs() }

// Ready is nil when the disk takes records, the broker has joined its cluster, and every partition that it leads is active.
func (b *Broker) Ready() error {
	s := b.serving.Load()
	if s == nil {
		return fault.Errorf(fault.Unavailable, "the broker has not joined its cluster: etcd (%v) has not answered yet", b.cfg.Etcd)
	}
	if err := s.disk.Ready(); err != nil {
		return err //nolint:wrapcheck // says what is wrong.
	}
	return s.roster.Ready() //nolint:wrapcheck // says what is missing.
}

// Run serves until ctx ends, and then stops in order (doc.go 5). It returns an error where the broker cannot go on: another cluster's etcd, a
// later life of the same broker (Conflict), a disk that failed (DiskPoisoned), a listener that broke.
func (b *Broker) Run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, b.Close()) }()
	addrs := b.Addrs()
	b.deps.Log.Info("broker listens", "capnp", addrs.Capnp, "http", addrs.HTTP, "admin", addrs.Admin, "dir", b.deps.FS.Name("."))
	parts := append(
		b.ports.Observed(b.deps.Log, b.deps.Metrics, &telemetry.Health{
			Ready: b.Ready, Service: "sq-broker", Instance: b.cfg.Instance(), Version: b.deps.Version,
		}),
		lifecycle.Part{Name: "follower", Run: b.follower.Run},
		lifecycle.Part{Name: "partitions", Run: b.serve},
	)
	return fault.Wrap("run broker", lifecycle.Run(ctx, b.deps.Log, parts...))
}
