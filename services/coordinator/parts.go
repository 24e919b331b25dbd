package coordinator

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/grpc"

	"github.com/seedqueue/sq/libs/topology"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/coordinator/internal/api"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/election"
	"github.com/seedqueue/sq/services/coordinator/internal/operator"
	"github.com/seedqueue/sq/services/coordinator/internal/reconcile"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

// parts is what a coordinator is made of.
type parts struct {
	follower  *topology.Follower
	election  *election.Election
	catalog   *catalog.Catalog
	reconcile *reconcile.Loop
	survey    *survey.Surveyor
	server    *grpc.Server
}

func (c *Coordinator) wire() (parts, error) {
	d := c.deps
	active := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sq_coordinator_active_state", Help: "1 while this coordinator is the active one, else 0.",
	})
	if err := d.Metrics.Register(active); err != nil {
		return parts{}, fmt.Errorf("register metric: %w", err)
	}
	metrics, err := reconcile.NewMetrics(d.Metrics)
	if err != nil {
		return parts{}, fmt.Errorf("register metric: %w", err)
	}
	p := parts{follower: topology.NewFollower(d.Store, d.Log, d.Clock)}
	p.election = election.New(election.Config{
		Store: d.Store, Clock: d.Clock, Log: d.Log, TTL: c.cfg.LeaseTTL, Live: d.Live(c.cfg.NodeID, c.cfg.Config, c.ports),
		OnChange: func(is bool) {
			if is {
				active.Set(1)
			} else {
				active.Set(0)
			}
		},
	})
	told := reports.NewBook()
	p.catalog = catalog.New(catalog.Config{
		Store: d.Store, Views: p.follower, Office: p.election, Clock: d.Clock, NewUUID: d.NewUUID, Log: d.Log, Reports: told, ReplicasDefault: replicasDefault,
	})
	p.survey = survey.New(survey.Config{Views: p.follower, Network: d.Network, ID: d.Live(c.cfg.NodeID, c.cfg.Config, c.ports).ID, Version: d.Version})
	p.reconcile = reconcile.New(reconcile.Config{
		Store: d.Store, Views: p.follower, Office: p.election, Clock: d.Clock, Log: d.Log, Metrics: metrics, Reports: told, Survey: p.survey,
		Planner: &reconcile.Planner{
			Creating: p.catalog.Creating, Grace: c.cfg.DeletedGrace, MovesAtOnce: c.cfg.MovesAtOnce, DeadAfter: c.cfg.DeadAfter, NewUUID: d.NewUUID,
		},
	})
	operate := operator.New(operator.Config{
		Store: d.Store, Views: p.follower, Office: p.election, Catalog: p.catalog, Reports: told, Survey: p.survey, Clock: d.Clock, NewUUID: d.NewUUID, Log: d.Log,
	})
	p.server = grpc.NewServer(
		grpc.MaxRecvMsgSize(messageBytesMax),
		grpc.MaxConcurrentStreams(callsPerConnection),
		grpc.StatsHandler(otelgrpc.NewServerHandler(otelgrpc.WithTracerProvider(d.Tracers), otelgrpc.WithPropagators(propagation.TraceContext{}))),
		grpc.ChainUnaryInterceptor(api.Translate, limitTime),
	)
	coordinatorv1.RegisterCoordinatorServiceServer(p.server, api.New(p.catalog, operate, told, d.Clock))
	return p, nil
}

// limitTime gives a call that brings no deadline one.
func limitTime(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if _, has := ctx.Deadline(); !has {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	return next(ctx, request)
}
