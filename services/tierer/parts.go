package tierer

import (
	"context"
	"errors"
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs/memfs"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/tierer/internal/api"
	"github.com/seedqueue/sq/services/tierer/internal/coldread"
	"github.com/seedqueue/sq/services/tierer/internal/export"
	"github.com/seedqueue/sq/services/tierer/internal/harvest"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
	"github.com/seedqueue/sq/services/tierer/internal/ledger"
	"github.com/seedqueue/sq/services/tierer/internal/probe"
	"github.com/seedqueue/sq/services/tierer/internal/retention"
	"github.com/seedqueue/sq/services/tierer/internal/upload"
)

// parts is what a tierer is made of.
type parts struct {
	follower  *topology.Follower
	monitor   *probe.Monitor
	leaders   *leader.Pool
	exporter  *export.Exporter
	pruner    *retention.Pruner
	harvester *harvest.Harvester
	reader    *coldread.Reader
	api       *api.Server
	server    *frame.Server
}

// meters are the metrics of the parts.
type meters struct {
	upload    *upload.Metrics
	export    *export.Metrics
	retention *retention.Metrics
	coldread  *coldread.Metrics
	api       *api.Metrics
}

func (t *Tierer) meters() (m meters, err error) {
	var errs [5]error
	m.upload, errs[0] = upload.NewMetrics(t.deps.Metrics)
	m.export, errs[1] = export.NewMetrics(t.deps.Metrics)
	m.retention, errs[2] = retention.NewMetrics(t.deps.Metrics)
	m.coldread, errs[3] = coldread.NewMetrics(t.deps.Metrics)
	m.api, errs[4] = api.NewMetrics(t.deps.Metrics)
	return m, errors.Join(errs[:]...)
}

func (t *Tierer) wire() (p parts, err error) {
	d, live := t.deps, t.live()
	m, err := t.meters()
	if err != nil {
		return parts{}, err
	}
	if d.Spool == nil {
		d.Spool = memfs.New()
	}
	spool, err := upload.NewSpool(d.Spool)
	if err != nil {
		return parts{}, fault.Errorf(fault.Unavailable, "spool-dir: %w", err)
	}
	p.follower = topology.NewFollower(d.Store, d.Log, d.Clock)
	p.monitor = probe.NewMonitor(probe.Config{
		Bucket: d.Bucket, Prepare: t.prepare(), Clock: d.Clock, Log: d.Log,
		Prefix: func() string { return fmt.Sprintf("%s/probe/%s/", t.cluster(), d.NewUUID()) },
	})
	pool := frame.NewPool()
	p.leaders = leader.New(leader.Config{
		Network: d.Network, Views: p.follower, Name: live.ID, Software: live.Software, Zone: live.Zone, Log: d.Log,
		Client: frame.ClientConfig{MaxInFlight: brokerInFlight, Pool: pool},
	})
	tables := ledger.New(p.leaders, t.cluster, tablesMax)
	p.exporter = export.New(export.Config{
		Ledger: tables, Leader: p.leaders, Bucket: p.monitor, Store: d.Store, Cluster: t.cluster, Name: live.ID,
		Clock: d.Clock, Limits: exportLimits(), Metrics: m.export, Log: d.Log,
	})
	p.pruner = &retention.Pruner{
		Written: p.exporter.TakeWritten, Bucket: p.monitor, Store: d.Store, Cluster: t.cluster, Clock: d.Clock, Every: pruneEvery,
		Metrics: m.retention, Log: d.Log,
	}
	w := &worker{
		uploader: upload.New(upload.Config{
			Leader: p.leaders, Bucket: p.monitor, Spool: spool, Cluster: t.cluster, Clock: d.Clock, Limits: uploadLimits(),
			Metrics: m.upload, Log: d.Log,
		}),
		exporter: p.exporter,
		collector: &retention.Collector{
			Ledger: tables, Leader: p.leaders, Bucket: p.monitor, Cluster: t.cluster, Metrics: m.retention, Log: d.Log,
		},
	}
	p.harvester = harvest.New(harvest.Config{
		Views: p.follower, Leader: p.leaders, Worker: w, Gate: p.monitor.Ready, Own: live.ID, Clock: d.Clock, Limits: harvestLimits(), Log: d.Log,
	})
	p.reader = coldread.New(coldread.Config{
		Ledger: tables, Bucket: p.monitor, Cluster: t.cluster, Limits: coldreadLimits(int64(t.cfg.CacheMemory)), Metrics: m.coldread,
	})
	p.api = api.New(p.reader, p.follower, apiLimits(), m.api, d.Tracers, d.Log)
	p.server = frame.NewServer(frame.ServerConfig{
		Handler: p.api, Accept: t.accept, Log: d.Log, MaxInFlight: connectionInFlight, Pool: pool,
	})
	return p, nil
}

// prepare makes the bucket, where that is asked for and the bucket can.
func (t *Tierer) prepare() func(ctx context.Context) error {
	maker, ok := t.deps.Bucket.(interface {
		Ensure(ctx context.Context) error
	})
	if !ok || !t.cfg.CreateBucket {
		return nil
	}
	return maker.Ensure
}

// live is what is written into etcd.
func (t *Tierer) live() topology.Live { return t.deps.Live(t.cfg.NodeID, t.cfg.Config, t.ports) }
