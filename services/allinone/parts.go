package allinone

import (
	"context"
	"fmt"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/node"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/services/allinone/internal/merge"
	"github.com/seedqueue/sq/services/broker"
	"github.com/seedqueue/sq/services/coordinator"
	"github.com/seedqueue/sq/services/gateway"
	"github.com/seedqueue/sq/services/tierer"
)

// service is what all services have in common.
type service interface {
	Run(ctx context.Context) error
	Ready() error
}

// part is a service with its name.
type part interface {
	service
	name() string
}

// named is a service that is started once.
type named struct {
	service

	title string
}

func (n named) name() string { return n.title }

// parts are the services.
type parts struct {
	coordinator part
	brokers     []part
	tierer      part
	gateway     *gateway.Gateway
}

// inOrder gives the services that there are in the order of their start.
func (p parts) inOrder() []part {
	var all []part
	if p.coordinator != nil {
		all = append(all, p.coordinator)
	}
	all = append(all, p.brokers...)
	if p.tierer != nil {
		all = append(all, p.tierer)
	}
	if p.gateway != nil {
		all = append(all, named{p.gateway, "gateway"})
	}
	return all
}

// wiring makes the services.
type wiring struct {
	cfg     Config
	deps    Deps
	net     *memnet.Network
	metrics *merge.Collector
}

// inside is where a service listens on the network in memory: any port of its own host.
func inside(host string) string { return host + ":0" }

func wire(ctx context.Context, cfg Config, deps Deps) (parts, error) {
	w := &wiring{cfg: cfg, deps: deps, net: deps.Inside, metrics: merge.New()}
	if w.net == nil {
		w.net = memnet.New()
	}
	if err := deps.Metrics.Register(w.metrics); err != nil {
		return parts{}, fmt.Errorf("register metrics: %w", err)
	}
	p, err := w.all(ctx)
	if err != nil {
		p.abandon(ctx)
	}
	return p, err
}

// all makes the services; with an error, those that it had made by then.
func (w *wiring) all(ctx context.Context) (p parts, err error) {
	if p.coordinator, err = w.coordinator(ctx); err != nil {
		return p, err
	}
	for n := range w.cfg.Brokers {
		b, err := w.broker(ctx, partition.NodeID(n+1)) //nolint:gosec // bounded by BrokersMax.
		if err != nil {
			return p, err
		}
		p.brokers = append(p.brokers, b)
	}
	if p.tierer, err = w.tierer(ctx); err != nil {
		return p, err
	}
	p.gateway, err = w.gateway(ctx)
	return p, err
}

// abandon closes what services hold that are never run: a Run that is told to stop at once does just that.
func (p parts) abandon(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	for _, made := range p.inOrder() {
		_ = made.Run(ctx) // why there is nothing to run is the error that counts
	}
}

// process gives a service's own dependencies. Its metrics are shown in the common registry.
func (w *wiring) process(name string, network transport.Network) node.Deps {
	registry := prometheus.NewRegistry()
	w.metrics.Set(name, registry, map[string]string{"instance": name})
	return node.Deps{
		Clock: w.deps.Clock, Network: network, Store: w.deps.Store, Log: w.deps.Log.With("process", name), Metrics: registry,
		Tracers: w.deps.Tracers, Rand: w.deps.Rand, Version: w.deps.Version,
	}
}

func (w *wiring) coordinator(ctx context.Context) (part, error) {
	const name = "coordinator"
	cfg := coordinator.Defaults()
	cfg.NodeID, cfg.ClusterID, cfg.LeaseTTL = name, w.cfg.ClusterID, w.cfg.LeaseTTL
	cfg.GRPCHost, cfg.HTTPHost, cfg.AdminHost = inside(name), inside(name), ""
	c, err := coordinator.New(ctx, cfg, w.process(name, w.net.At(name)))
	if err != nil {
		return nil, fault.Wrap("start "+name, err)
	}
	return named{c, name}, nil
}

func (w *wiring) broker(ctx context.Context, id partition.NodeID) (part, error) {
	name := "broker-" + strconv.FormatUint(uint64(id), 10)
	s := &supervised{title: name, deps: w.deps, start: func(ctx context.Context) (service, error) {
		disk, err := w.deps.Disk(id)
		if err != nil {
			return nil, fault.Wrap("open the disk of "+name, err)
		}
		cfg := broker.Defaults()
		cfg.NodeID, cfg.ClusterID, cfg.LeaseTTL, cfg.SyncPolicy = uint64(id), w.cfg.ClusterID, w.cfg.LeaseTTL, w.cfg.SyncPolicy
		cfg.JournalSize = journalSize
		cfg.CapnpHost, cfg.HTTPHost, cfg.AdminHost = inside(name), inside(name), ""
		return broker.New(ctx, cfg, broker.Deps{Deps: w.process(name, w.net.At(name)), FS: disk})
	}}
	life, err := s.start(ctx)
	if err != nil {
		return nil, fault.Wrap("start "+name, err)
	}
	s.set(life)
	return s, nil
}

func (w *wiring) tierer(ctx context.Context) (part, error) {
	const name = "tierer"
	cfg := tierer.Defaults()
	cfg.NodeID, cfg.ClusterID, cfg.LeaseTTL = name, w.cfg.ClusterID, w.cfg.LeaseTTL
	cfg.CapnpHost, cfg.HTTPHost, cfg.AdminHost = inside(name), inside(name), ""
	t, err := tierer.New(ctx, cfg, tierer.Deps{Deps: w.process(name, w.net.At(name)), Bucket: w.deps.Bucket, Spool: w.deps.Spool})
	if err != nil {
		return nil, fault.Wrap("start "+name, err)
	}
	return named{t, name}, nil
}

func (w *wiring) gateway(ctx context.Context) (*gateway.Gateway, error) {
	const name = "gateway"
	cfg := gateway.Defaults()
	cfg.NodeID, cfg.ClusterID, cfg.LeaseTTL = name, w.cfg.ClusterID, w.cfg.LeaseTTL
	cfg.CapnpHost, cfg.GRPCHost, cfg.HTTPHost, cfg.AdminHost = w.cfg.CapnpHost, w.cfg.GRPCHost, w.cfg.HTTPHost, ""
	cfg.AutoCreateTopics = w.cfg.AutoCreateTopics
	g, err := gateway.New(ctx, cfg, w.process(name, edge{outside: w.deps.Outside, inside: w.net.At(name)}))
	if err != nil {
		return nil, fault.Wrap("start "+name, err)
	}
	return g, nil
}
