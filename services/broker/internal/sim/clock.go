package sim

import (
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// epoch is when every run begins.
var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // constant.

// nodeClock is a machine's clock: off by something, and running too fast or too slow.
type nodeClock struct {
	w      *World
	offset time.Duration
	drift  int64 // parts in a thousand
}

var _ clock.Clock = (*nodeClock)(nil)

func (c *nodeClock) Now() time.Time {
	return epoch.Add(c.offset + c.w.now + c.w.now/1000*time.Duration(c.drift))
}

func (c *nodeClock) NewTimer(d time.Duration) clock.Timer {
	t := &timer{w: c.w, c: make(chan time.Time, 1)}
	t.Reset(d)
	return t
}

type timer struct {
	w     *World
	c     chan time.Time
	round int // counts Reset and Stop
	armed bool
}

func (t *timer) C() <-chan time.Time { return t.c }

func (t *timer) Stop() bool {
	armed := t.armed
	t.round++
	t.armed = false
	return armed
}

func (t *timer) Reset(d time.Duration) {
	t.round++
	t.armed = true
	round := t.round
	t.w.agenda.push(t.w.now+max(d, 0), func() {
		if t.round == round && t.armed {
			t.armed = false
			t.c <- epoch.Add(t.w.now)
		}
	})
}
