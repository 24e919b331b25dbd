package gateway

import (
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
)

// Deps is what a programmer hands in. All but Hostname are needed.
type Deps struct {
	Clock   clock.Clock
	Network transport.Network // to listen on for clients, and to dial brokers, tierers and the coordinator
	Store   topology.Store    // stays the caller's to close
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Tracers trace.TracerProvider
	Rand    io.Reader // of UUIDs
	Version string
	// Hostname stands for a wildcard listen address in what is advertised; empty where none is listened on.
	Hostname string
}
