package admission

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/proto/frame"
)

// retryAfter is the hint to who is refused a slot.
const retryAfter = time.Second

// Gate is what a gateway admits by.
type Gate struct {
	bodies *frame.MemoryBudget
	share  int
	slots  chan struct{}
	full   prometheus.Counter
}

// New makes a Gate of bytes for bodies, of which one client's answers may take share, and of calls over gRPC and REST at once. It
// registers its metrics.
func New(bytes, share, calls int, registry *prometheus.Registry) *Gate {
	g := &Gate{bodies: frame.NewBudget(bytes), share: min(share, bytes), slots: make(chan struct{}, calls)}
	g.full = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "sq_gateway_calls_refused_total",
		Help: "Calls over gRPC and REST that were refused because all slots were taken.",
	})
	registry.MustRegister(g.full,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sq_gateway_body_bytes",
			Help: "Bytes of request and answer bodies in memory.",
		}, func() float64 { return float64(g.bodies.Used()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sq_gateway_body_budget_bytes",
			Help: "Most bytes of request and answer bodies that may be in memory.",
		}, func() float64 { return float64(g.bodies.Total()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sq_gateway_calls",
			Help: "Calls over gRPC and REST that are being served.",
		}, func() float64 { return float64(len(g.slots)) }),
	)
	return g
}

// Bodies is the budget of all bodies.
func (g *Gate) Bodies() frame.Budget { return g.bodies }

// Enter takes a slot, which leave gives back. The error is fault.Overloaded.
func (g *Gate) Enter() (leave func(), err error) {
	select {
	case g.slots <- struct{}{}:
		return func() { <-g.slots }, nil
	default:
		g.full.Inc()
		return nil, &fault.Error{
			Kind: fault.Overloaded, Op: "admit call", RetryAfter: retryAfter,
			Err: fault.Errorf(fault.Overloaded, "%d calls are being served, which is the limit", cap(g.slots)),
		}
	}
}

// Share gives one client's part of the budget.
func (g *Gate) Share() *Share {
	return &Share{own: frame.NewBudget(g.share), all: g.bodies}
}

// Share is a frame.Budget within the Gate's.
type Share struct{ own, all *frame.MemoryBudget }

// Reserve implements frame.Budget.
func (s *Share) Reserve(ctx context.Context, n int) error {
	if err := s.own.Reserve(ctx, n); err != nil {
		return err //nolint:wrapcheck // frame reads its own errors.
	}
	if err := s.all.Reserve(ctx, n); err != nil {
		s.own.Release(n)
		return err //nolint:wrapcheck // frame reads its own errors.
	}
	return nil
}

// TryReserve takes n bytes if there is room now.
func (s *Share) TryReserve(n int) bool {
	if !s.own.TryReserve(n) {
		return false
	}
	if !s.all.TryReserve(n) {
		s.own.Release(n)
		return false
	}
	return true
}

// Release implements frame.Budget.
func (s *Share) Release(n int) {
	s.all.Release(n)
	s.own.Release(n)
}

// InUse counts the slots that are taken.
func (g *Gate) InUse() int { return len(g.slots) }
