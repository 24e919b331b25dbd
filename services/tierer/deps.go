package tierer

import (
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/libs/vfs"
)

// Deps is what a programmer hands in. All but Spool and Hostname are needed.
type Deps struct {
	Clock   clock.Clock
	Network transport.Network
	Store   topology.Store  // stays the caller's to close
	Bucket  objstore.Bucket // with a method Ensure(ctx) error where Config.CreateBucket is to work
	// Spool is an own directory for segments on their way to the bucket; nil = in memory. Nothing in it outlives the process.
	Spool   vfs.FS
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Tracers trace.TracerProvider
	Rand    io.Reader // of UUIDs and names of probes
	Version string
	// Hostname stands for a wildcard listen address in what is advertised; empty where none is listened on.
	Hostname string
}
