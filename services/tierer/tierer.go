package tierer

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/node"
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
	ports node.Ports
	parts parts
	// joined is the cluster's identity; nil = not known yet. It never changes.
	joined     atomic.Pointer[topology.Cluster]
	registered atomic.Bool
}

// New binds the listeners. Nothing is served before Run, which closes them.
func New(ctx context.Context, cfg Config, deps Deps) (*Tierer, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Tierer{cfg: cfg, deps: deps, ports: cfg.ports()}
	if err := t.ports.Listen(ctx, deps.Network); err != nil {
		return nil, err //nolint:wrapcheck // names the field.
	}
	var err error
	if t.parts, err = t.wire(); err != nil {
		t.ports.Close()
		return nil, err
	}
	return t, nil
}

// Addrs tells where the tierer listens.
func (t *Tierer) Addrs() node.Addrs { return t.ports.Addrs() }

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
	defer t.ports.Close()
	parts := append(
		t.ports.Observed(t.deps.Log, t.deps.Metrics, &telemetry.Health{
			Ready: t.Ready, Service: "sq-tierer", Instance: t.live().ID, Version: t.deps.Version,
		}),
		lifecycle.Part{Name: "follower", Run: t.parts.follower.Run},
		lifecycle.Part{Name: "member", Run: t.member},
	)
	return fault.Wrap("run tierer", lifecycle.Run(ctx, t.deps.Log, parts...))
}

// member joins the cluster and then does a tierer's work.
func (t *Tierer) member(ctx context.Context) error {
	cluster, err := t.deps.Join(ctx, t.cfg.Config)
	if err != nil || cluster.ID.IsZero() {
		return errors.Join(err, t.parts.close())
	}
	t.joined.Store(&cluster)
	err = lifecycle.Run(ctx, t.deps.Log,
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

// register makes the tierer known to the gateways until ctx ends.
func (t *Tierer) register(ctx context.Context) error {
	live := t.live()
	return t.deps.Stay(ctx, t.cfg.Config, topology.TiererLiveKey(live.ID), live, t.registered.Store) //nolint:wrapcheck // says what was attempted.
}

// serve serves cold reads until ctx ends, then says goAway and drains.
func (t *Tierer) serve(ctx context.Context) error {
	return fault.Wrap("serve cold reads", t.deps.ServeFrames(ctx, t.parts.server, t.ports.Capnp))
}

// accept judges a Hello: the data port is for gateways and tools of the same cluster.
func (t *Tierer) accept(_ context.Context, hello frame.HelloInfo) (frame.ServerInfo, *frame.RemoteError) {
	own := t.cluster().String()
	if hello.ClusterID != "" && hello.ClusterID != own {
		return frame.ServerInfo{}, frame.Errorf(wirecapnp.ErrorKind_wrongCluster, "this tierer belongs to cluster %s, not %s", own, hello.ClusterID)
	}
	return frame.ServerInfo{ClusterID: own, Software: t.deps.Version}, nil
}
