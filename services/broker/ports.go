package broker

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/lifecycle"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/services/broker/internal/data"
	"github.com/seedqueue/sq/services/broker/internal/disk"
	"github.com/seedqueue/sq/services/broker/internal/herald"
	"github.com/seedqueue/sq/services/broker/internal/lease"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/pid"
	"github.com/seedqueue/sq/services/broker/internal/roster"
)

// newPeers makes what carries replication to the other brokers.
func (b *Broker) newPeers(l life) (*peer.Peers, error) {
	return peer.New(peer.Config{ //nolint:wrapcheck // says what was attempted.
		Self: b.cfg.node(), Cluster: l.cluster, Software: "sq-broker/" + b.deps.Version, Topology: b.follower, Network: b.deps.Network,
		Clock: b.deps.Clock, Rand: b.deps.Rand, Log: b.deps.Log, Metrics: b.deps.Metrics,
	})
}

// replicas is the roster as the data port sees it.
type replicas struct{ *roster.Roster }

// Replica implements data.Replicas.
func (r replicas) Replica(id partition.ID) (data.Replica, bool) {
	found, ok := r.Roster.Replica(id)
	return found, ok
}

func (b *Broker) newServer(l life, all *roster.Roster) (*data.Server, error) {
	receiver, err := peer.NewReceiver(b.cfg.node(), all, b.deps.Log, b.deps.Metrics)
	if err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	budget := frame.NewBudget(int(b.cfg.BodyMemory))
	others := frame.NewBudget(max(int(b.cfg.BodyMemory/peerMemoryPart), peerMemoryMin))
	err = telemetry.Register(b.deps.Metrics,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sq_broker_body_memory_bytes", Help: "Memory of batches that have arrived and are not yet appended and answered.",
		}, func() float64 { return float64(budget.Used()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sq_broker_peer_memory_bytes", Help: "Memory of batches that have arrived from other brokers and are not yet appended.",
		}, func() float64 { return float64(others.Used()) }),
	)
	if err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	return data.New(data.Config{ //nolint:wrapcheck // says what was attempted.
		Replicas: replicas{all}, Peers: receiver, ProducerIDs: pid.New(b.deps.Store), Cluster: l.cluster, Node: b.cfg.node(),
		Software: "sq-broker/" + b.deps.Version, Budget: budget, PeerBudget: others,
		Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics, Tracers: b.deps.Tracers,
	})
}

// newHerald makes what reports to the coordinator.
func (b *Broker) newHerald(l life, watch *disk.Watch, registration *lease.Lease, peers *peer.Peers, replicas *roster.Roster) (*herald.Herald, error) {
	return herald.New(herald.Config{ //nolint:wrapcheck // says what was attempted.
		Self: b.cfg.node(), Incarnation: l.claim.Incarnation, Topology: b.follower, Suspects: peers, Lost: replicas.Lost,
		Disk: func() herald.Disk {
			usage := watch.Usage()
			now := herald.Disk{ID: l.ident.Disk, State: herald.DiskOK, Free: usage.Free, Total: usage.Total}
			switch {
			case registration.Slow():
				now.State = herald.DiskSlow
			case watch.Refusal(false) != nil:
				now.State = herald.DiskFull
			}
			return now
		},
		Network: b.deps.Network, Clock: b.deps.Clock, Log: b.deps.Log, Metrics: b.deps.Metrics,
	})
}

// drain waits for the end of the process and then, if nothing has failed, for others to lead what this broker leads. Until it returns all goes on.
func (b *Broker) drain(reports *herald.Herald) func(context.Context) error {
	return func(ctx context.Context) error {
		<-ctx.Done()
		if lifecycle.Failure(ctx) == nil {
			reports.Drain(context.WithoutCancel(ctx), b.cfg.DrainTimeout)
		}
		return nil
	}
}
