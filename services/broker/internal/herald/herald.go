package herald

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/telemetry"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/transport"
	coordinatorv1 "github.com/seedqueue/sq/proto/gen/sq/coordinator/v1"
	"github.com/seedqueue/sq/services/broker/internal/peer"
	"github.com/seedqueue/sq/services/broker/internal/roster"
)

// Topology is the View as it changes; *topology.Follower is one.
type Topology interface {
	View() *topology.View
	Changed() <-chan struct{}
}

// Suspects are the brokers that do not answer; *peer.Peers tells.
type Suspects interface {
	Suspects() []peer.Suspect
	Changed() <-chan struct{}
}

// Disk is the data disk as it is now.
type Disk struct {
	ID          partition.UUID
	State       string // ok, slow, full
	Free, Total uint64 // bytes
}

// States of a Disk.
const (
	DiskOK   = "ok"
	DiskSlow = "slow"
	DiskFull = "full"
)

// Config is what a Herald is made of. All of it is needed.
type Config struct {
	Self        partition.NodeID
	Incarnation partition.Incarnation
	Topology    Topology
	Suspects    Suspects
	Lost        func() []roster.Lost
	Disk        func() Disk
	Network     transport.Network
	Clock       clock.Clock
	Log         *slog.Logger
	Metrics     prometheus.Registerer
}

// Herald reports to the active coordinator. See doc.go.
type Herald struct {
	cfg      Config
	draining atomic.Bool
	wake     chan struct{} // capacity 1: there is something new to say

	// What follows belongs to Run.
	asked   int64            // registration of the coordinator that was asked last; 0 = there was none
	conn    *grpc.ClientConn // nil = none
	addr    string           // of conn
	failing bool             // the last report failed, and that is logged
	sent    *coordinatorv1.ReportRequest
	sentAt  time.Time

	reports, failures prometheus.Counter
}

// New makes a Herald.
func New(cfg Config) (*Herald, error) {
	h := &Herald{
		cfg: cfg, wake: make(chan struct{}, 1),
		reports: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_reports_total", Help: "Reports that the active coordinator has taken.",
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sq_broker_report_failures_total", Help: "Reports that no coordinator has taken.",
		}),
	}
	draining := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sq_broker_draining_state", Help: "1 while the broker hands over what it leads, to stop.",
	}, func() float64 {
		if h.draining.Load() {
			return 1
		}
		return 0
	})
	return h, telemetry.Register(cfg.Metrics, h.reports, h.failures, draining) //nolint:wrapcheck // says what was attempted.
}

// Run reports until ctx ends, and returns nil then.
func (h *Herald) Run(ctx context.Context) error {
	defer h.hangUp()
	timer := h.cfg.Clock.NewTimer(time.Hour)
	defer timer.Stop()
	timer.Stop()
	for {
		suspects, views := h.cfg.Suspects.Changed(), h.cfg.Topology.Changed()
		timer.Reset(h.step(ctx))
		for again := false; !again; {
			select {
			case <-ctx.Done():
				return nil
			case <-suspects:
				again = true
			case <-h.wake:
				again = true
			case <-timer.C():
				again = true
			case <-views:
				views = h.cfg.Topology.Changed()
				again = h.active().CreateRevision != h.asked
			}
		}
		timer.Stop()
	}
}

// active is the registration of the active coordinator; zero = there is none.
func (h *Herald) active() topology.Versioned[topology.Live] {
	if active := h.cfg.Topology.View().Coordinator; active != nil {
		return *active
	}
	return topology.Versioned[topology.Live]{}
}

// step reports if it is time to, and tells when to look again.
func (h *Herald) step(ctx context.Context) time.Duration {
	to := h.active()
	if to.CreateRevision != h.asked {
		h.asked, h.sent = to.CreateRevision, nil // who comes new knows nothing
	}
	report := h.report()
	now := h.cfg.Clock.Now()
	every := quietEvery
	if mustAct(report) {
		every = busyEvery
	}
	if h.sent != nil && says(h.sent, report) {
		if left := every - now.Sub(h.sentAt); left > 0 {
			return min(left, lookEvery)
		}
	}
	if err := h.send(ctx, to.Value.GRPC, report); err != nil {
		if ctx.Err() == nil {
			h.failed(ctx, report, err)
		}
		return retryWait
	}
	h.reports.Inc()
	h.sent, h.sentAt, h.failing = report, now, false
	return lookEvery
}

// failed takes note of a report that nobody took. It is worth a warning only where something hangs on it.
func (h *Herald) failed(ctx context.Context, report *coordinatorv1.ReportRequest, err error) {
	h.failures.Inc()
	h.sent = nil
	if !h.failing {
		level := slog.LevelDebug
		if mustAct(report) {
			level = slog.LevelWarn
		}
		h.cfg.Log.Log(ctx, level, "no coordinator takes this broker's report, trying on", "err", err)
	}
	h.failing = true
}

// report says all there is to say.
func (h *Herald) report() *coordinatorv1.ReportRequest {
	disk := h.cfg.Disk()
	report := &coordinatorv1.ReportRequest{
		Broker: uint64(h.cfg.Self), Incarnation: uint64(h.cfg.Incarnation), Draining: h.draining.Load(),
		Disks: []*coordinatorv1.DiskState{{Disk: disk.ID.String(), State: disk.State, FreeBytes: disk.Free, TotalBytes: disk.Total}},
	}
	for _, s := range h.cfg.Suspects.Suspects() {
		if len(report.Suspects) < suspectsMax {
			report.Suspects = append(report.Suspects, &coordinatorv1.Suspect{Broker: uint64(s.Broker), Incarnation: uint64(s.Incarnation)})
		}
	}
	for _, l := range h.cfg.Lost() {
		if len(report.Lost) < lostMax {
			report.Lost = append(report.Lost, &coordinatorv1.LostReplica{
				Topic: l.Partition.Topic.String(), Partition: uint32(l.Partition.Index), Replica: l.Replica.String(), Reason: l.Reason,
			})
		}
	}
	return report
}

// mustAct tells whether a coordinator has to do something about a report.
func mustAct(r *coordinatorv1.ReportRequest) bool {
	return r.GetDraining() || len(r.GetSuspects()) > 0 || len(r.GetLost()) > 0 || r.GetDisks()[0].GetState() != DiskOK
}

// says tells whether two reports say the same; the room on a disk is no news.
func says(a, b *coordinatorv1.ReportRequest) bool {
	a, b = proto.CloneOf(a), proto.CloneOf(b)
	for _, r := range [...]*coordinatorv1.ReportRequest{a, b} {
		for _, d := range r.GetDisks() {
			d.FreeBytes, d.TotalBytes = 0, 0
		}
	}
	return proto.Equal(a, b)
}
