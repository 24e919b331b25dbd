package replica

import (
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// wallclock reads the clock for one replica's goroutine and notices when the wall time steps.
type wallclock struct {
	clock  clock.Clock
	start  time.Time
	wall   int64         // of the last reading, microseconds since 1970
	mono   time.Duration // of the last reading, since start
	jumped int64         // sum of the large steps in microseconds; expiry goes on as if they had not been
}

func newWallclock(c clock.Clock) *wallclock {
	now := c.Now()
	return &wallclock{clock: c, start: now, wall: now.UnixMicro()}
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
	return w.at(now.UnixMicro(), now.Sub(w.start))
}

// at takes in what the wall clock says after a monotonic time.
func (w *wallclock) at(wall int64, elapsed time.Duration) reading {
	step := time.Duration(wall-w.wall)*time.Microsecond - (elapsed - w.mono)
	w.wall, w.mono = wall, elapsed
	r := reading{elapsed: elapsed, micros: wall}
	if step > clockJump || step < -clockJump {
		w.jumped += step.Microseconds()
		r.jump = step
	}
	r.expiry = wall - w.jumped
	return r
}
