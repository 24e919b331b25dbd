package wallclock

import (
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// stepMin is a step of the wall clock that is told, and that expiry does not follow.
const stepMin = time.Hour

// Clock reads a clock for one goroutine and notices when the wall time steps.
type Clock struct {
	clock  clock.Clock
	start  time.Time
	wall   int64         // of the last reading, microseconds since 1970
	mono   time.Duration // of the last reading, since start
	jumped int64         // sum of the large steps in microseconds; expiry goes on as if they had not been
}

// New begins now.
func New(c clock.Clock) *Clock {
	now := c.Now()
	return &Clock{clock: c, start: now, wall: now.UnixMicro()}
}

// Reading is one look at the clock.
type Reading struct {
	Elapsed time.Duration // monotonic, since New
	Micros  int64         // wall time, microseconds since 1970
	Expiry  int64         // wall time without large steps
	Jump    time.Duration // a large step since the last look, 0 = none
}

// Read looks at the clock.
func (w *Clock) Read() Reading {
	now := w.clock.Now()
	return w.at(now.UnixMicro(), now.Sub(w.start))
}

// at takes in what the wall clock says after a monotonic time.
func (w *Clock) at(wall int64, elapsed time.Duration) Reading {
	step := time.Duration(wall-w.wall)*time.Microsecond - (elapsed - w.mono)
	w.wall, w.mono = wall, elapsed
	r := Reading{Elapsed: elapsed, Micros: wall}
	if step > stepMin || step < -stepMin {
		w.jumped += step.Microseconds()
		r.Jump = step
	}
	r.Expiry = wall - w.jumped
	return r
}
