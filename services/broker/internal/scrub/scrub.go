package scrub

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/vfs"
)

// Config says how fast.
type Config struct {
	Rate     int64         // bytes a second, above 0
	Interval time.Duration // that a pass takes, where Rate allows; above 0
}

// Deps is what a scrubber works with; it owns none of it.
type Deps struct {
	FS      vfs.FS
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics prometheus.Registerer
	Rand    io.Reader
	// Segments lists the sealed segments of the disk.
	Segments func() []Segment
	// Look is called, as a job of Do, when a segment is damaged or good again: whoever serves it looks for itself. May be nil.
	Look func(Segment)
	// Do has a read done by the disk's workers and waits for it; it fails when ctx has ended.
	Do func(ctx context.Context, job func()) error
}

// Scrubber reads a disk's sealed segments again. Run belongs to one goroutine.
type Scrubber struct {
	cfg     Config
	deps    Deps
	metrics *metrics
	salt    uint64
	window  []byte // made when it is first needed
	faulty  map[key]bool
}

// New makes a scrubber.
func New(cfg Config, deps Deps) (*Scrubber, error) {
	if cfg.Rate <= 0 || cfg.Interval <= 0 {
		return nil, fault.Errorf(fault.Invalid, "make scrubber: rate %d and interval %v must be above 0", cfg.Rate, cfg.Interval)
	}
	m, err := newMetrics(deps.Metrics)
	if err != nil {
		return nil, fault.Errorf(fault.Internal, "register scrub metrics: %w", err)
	}
	var salt [8]byte
	if _, err := io.ReadFull(deps.Rand, salt[:]); err != nil {
		return nil, fault.Errorf(fault.Internal, "make scrubber: read randomness: %w", err)
	}
	return &Scrubber{cfg: cfg, deps: deps, metrics: m, salt: binary.LittleEndian.Uint64(salt[:]), faulty: map[key]bool{}}, nil
}

// Run scrubs until ctx ends.
func (s *Scrubber) Run(ctx context.Context) error {
	p := newPlan(s.cfg.Interval, s.salt)
	look := max(min(s.cfg.Interval/lookFraction, lookEvery), lookLeast)
	for {
		all := s.deps.Segments()
		s.prune(all)
		now := s.deps.Clock.Now()
		next, at, ok := p.next(all, now)
		if !ok || at.After(now) {
			wait := look
			if ok {
				wait = min(wait, at.Sub(now))
			}
			if !s.sleep(ctx, wait) {
				return nil
			}
			continue
		}
		p.begin(&next, now)
		if !s.segment(ctx, &next) {
			return nil
		}
		if now := s.deps.Clock.Now(); p.done(&next, s.deps.Segments(), now) {
			s.metrics.pass.Set(float64(now.UnixMilli()) / 1000)
			s.deps.Log.Info("all sealed segments were read again", "segments", len(all), "faulty", len(s.faulty))
		}
	}
}

// prune forgets faults of segments that are gone.
func (s *Scrubber) prune(all []Segment) {
	if len(s.faulty) == 0 {
		return
	}
	there := make(map[key]bool, len(all))
	for i := range all {
		there[all[i].key()] = true
	}
	for k := range s.faulty {
		if !there[k] {
			delete(s.faulty, k)
		}
	}
	s.metrics.faulty.Set(float64(len(s.faulty)))
}

// sleep waits; false when ctx has ended.
func (s *Scrubber) sleep(ctx context.Context, d time.Duration) bool {
	return sleep(ctx, s.deps.Clock, d) == nil
}

// segment reads a segment and tells what is wrong with it; false when ctx has ended before that is known.
func (s *Scrubber) segment(ctx context.Context, seg *Segment) bool {
	bad := s.read(ctx, seg)
	if bad != nil && ctx.Err() == nil {
		bad = s.read(ctx, seg)
	}
	switch {
	case ctx.Err() != nil:
		return false
	case bad == nil && !s.faulty[seg.key()]:
		return true
	case bad == nil:
		s.good(seg)
	case s.listed(seg):
		s.bad(bad)
	default:
		return true
	}
	return s.deps.Look == nil || s.deps.Do(ctx, func() { s.deps.Look(*seg) }) == nil
}

func (s *Scrubber) read(ctx context.Context, seg *Segment) *Fault {
	file, err := s.deps.FS.Open(seg.File, vfs.Direct)
	if err != nil {
		return &Fault{Segment: *seg, Offset: seg.Base, Err: err}
	}
	defer file.Close()
	if s.window == nil {
		s.window = make([]byte, windowBytes)
	}
	return check(&slowReader{
		ctx: ctx, clock: s.deps.Clock, file: file, rate: s.cfg.Rate, do: s.deps.Do, window: s.window,
		read: func(n int) { s.metrics.bytes.Add(float64(n)) },
	}, seg)
}

// listed tells whether a segment is still there, and not a compacted one in its place: then it was when it was read.
func (s *Scrubber) listed(seg *Segment) bool {
	for _, other := range s.deps.Segments() {
		if other.key() == seg.key() && other.Size == seg.Size {
			return true
		}
	}
	return false
}

func (s *Scrubber) good(seg *Segment) {
	delete(s.faulty, seg.key())
	s.metrics.faulty.Set(float64(len(s.faulty)))
	s.deps.Log.Info("a damaged segment is good again", "partition", seg.Partition.String(), "file", s.deps.FS.Name(seg.File))
}

func (s *Scrubber) bad(f *Fault) {
	k := f.Segment.key()
	if s.faulty[k] {
		return
	}
	s.faulty[k] = true
	s.metrics.faults.Inc()
	s.metrics.faulty.Set(float64(len(s.faulty)))
	s.deps.Log.Error("a sealed segment is damaged", "partition", f.Segment.Partition.String(), "replica", f.Segment.Replica.String(),
		"offset", uint64(f.Offset), "position", f.Position, "file", s.deps.FS.Name(f.Segment.File), "err", f.Err)
}
