package allinone

import (
	"io"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/objstore"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
	"github.com/seedqueue/sq/libs/transport/memnet"
	"github.com/seedqueue/sq/libs/vfs"
)

// Deps is what a programmer hands in. All but Spool and Inside are needed.
type Deps struct {
	Clock  clock.Clock
	Store  topology.Store  // stays the caller's to close
	Bucket objstore.Bucket // of the tierer
	// Disk gives a broker's data directory. It is asked again when a broker starts anew.
	Disk func(partition.NodeID) (vfs.FS, error)
	// Spool is the tierer's own directory for segments on their way to the bucket; nil = in memory.
	Spool vfs.FS
	// Outside is where the gateway listens; Inside is between the services, nil = one of its own.
	Outside transport.Network
	Inside  *memnet.Network
	Log     *slog.Logger
	Metrics *prometheus.Registry
	Tracers trace.TracerProvider
	Rand    io.Reader
	Version string
}
