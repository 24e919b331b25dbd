package node

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
)

// Deps is what a programmer hands in. All but Hostname are needed.
type Deps struct {
	Clock   clock.Clock
	Network transport.Network // to listen on, and to dial the other processes
	Store   topology.Store    // stays the caller's to close
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Tracers trace.TracerProvider
	Rand    io.Reader // of UUIDs
	Version string
	// Hostname stands for a wildcard listen address in what is advertised; empty where none is listened on.
	Hostname string
}

// NewUUID makes a random one (doc.go 5).
func (d Deps) NewUUID() partition.UUID {
	id, err := uuid.NewRandomFromReader(d.Rand)
	if err != nil {
		panic(fmt.Sprintf("node: read randomness: %v", err))
	}
	return partition.UUID(id)
}

// Live is what a process with these settings and bound ports tells the others. An empty id is the data address, or else the gRPC address.
func (d Deps) Live(id string, cfg Config, ports Ports) topology.Live {
	at := ports.Reached(d.Hostname)
	return topology.Live{
		ID: cmp.Or(id, at.Capnp, at.GRPC), Zone: cfg.Zone, Software: d.Version, Capnp: at.Capnp, GRPC: at.GRPC, HTTP: at.HTTP,
	}
}
