package replica

import (
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// wallclock reads the clock for one replica's goroutine and notices when the wall time steps.
type wallclock struct {
	clock  clock.Clock
	start  time.Time
	last   time.Time
	jumped time.Duration // sum of the large steps; expiry goes on as if they had not been
}

func newWallclock(c clock.Clock) *wallclock {
	now := c.Now()
	return &wallclock{clock: c, start: now, last: now}
}

// reading is one look at the clock.
type reading struct {
	elapsed time.Duration // monotonic, since the replica was opened
	micros  int64         // wall time, microseconds since 1970
	expiry  int64         // wall time without large steps
	jump    time.Duration // a large step since the last look, 0 = none
}

func (w *wallclock) read() reading {
	now := w.clock.Now()
	wall := now.Round(0).Sub(w.last.Round(0))
	step := wall - now.Sub(w.last)
	w.last = now
	r := reading{elapsed: now.Sub(w.start), micros: now.UnixMicro()}
	if step > clockJump || step < -clockJump {
		w.jumped += step
		r.jump = step
	}
	r.expiry = r.micros - w.jumped.Microseconds()
	return r
}
