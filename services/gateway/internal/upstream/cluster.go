package upstream

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/route"
)

// Config is what a Cluster is made of.
type Config struct {
	Router   route.Router
	Network  transport.Network
	Clock    clock.Clock
	Metrics  *prometheus.Registry
	Pool     *frame.Pool
	Limits   Limits
	Software string // of this gateway, as in "sq-gateway/0.1.0"
	Zone     string
}

// Cluster is what the Callers of a gateway share.
type Cluster struct {
	router   route.Router
	network  transport.Network
	clock    clock.Clock
	metrics  *metrics
	client   frame.ClientConfig
	limits   Limits
	software string
	zone     string
	marks    *marks
}

// New makes a Cluster and registers its metrics.
func New(cfg Config) *Cluster {
	return &Cluster{
		router: cfg.Router, network: cfg.Network, clock: cfg.Clock, metrics: newMetrics(cfg.Metrics), limits: cfg.Limits,
		software: cfg.Software, zone: cfg.Zone, marks: newMarks(cfg.Limits.MarksMax),
		client: frame.ClientConfig{
			MaxMessageBytes: cfg.Limits.MessageBytes, MaxBodyBytes: cfg.Limits.BodyBytes, MaxInFlight: cfg.Limits.MaxInFlight,
			Pool: cfg.Pool, BodyTimeout: cfg.Limits.AnswerTimeout, WriteTimeout: cfg.Limits.WriteTimeout,
		},
	}
}

// clusterID is empty before the cluster is bootstrapped.
func (c *Cluster) clusterID() string {
	id := c.router.Table().ClusterID()
	if id.IsZero() {
		return ""
	}
	return id.String()
}

// Client is for whom a Caller makes calls.
type Client struct {
	ID, Principal string       // told to the brokers
	Budget        frame.Budget // for the bodies of its answers; nil = unbounded
}

// Caller makes calls for one client over connections of its own. Who asked for it closes it.
func (c *Cluster) Caller(client Client) *Caller {
	life, end := context.WithCancel(context.Background())
	caller := &Caller{cluster: c, life: life, end: end, links: newLinks(c, client.Budget, frame.HelloParams{
		Role: wirecapnp.Role_gateway, ClientID: client.ID, Software: c.software, Zone: c.zone, OnBehalfOf: client.Principal,
	})}
	caller.lanes = newLanes(caller)
	return caller
}
