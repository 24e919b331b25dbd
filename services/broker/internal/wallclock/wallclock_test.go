package wallclock

import (
	"testing"
	"time"
)

// The wall clock steps by a month: expiry does not follow, and an alarm is due. An idle month is no step.
func TestWallClockSteps(t *testing.T) {
	month := 30 * 24 * time.Hour
	w := &Clock{wall: 1_000_000}
	wall, mono := w.wall, time.Duration(0)
	look := func(wallStep, monoStep time.Duration) Reading {
		wall, mono = wall+wallStep.Microseconds(), mono+monoStep
		return w.at(wall, mono)
	}
	if r := look(month, month); r.Jump != 0 || r.Expiry != wall {
		t.Errorf("an idle month: %+v", r)
	}
	if r := look(month, time.Second); r.Jump != month-time.Second || r.Expiry != wall-r.Jump.Microseconds() {
		t.Errorf("a step forward: %+v", r)
	}
	if r := look(time.Minute, time.Minute); r.Jump != 0 || r.Expiry != wall-(month-time.Second).Microseconds() {
		t.Errorf("after it: %+v", r)
	}
	if r := look(-month, time.Second); r.Jump != -month-time.Second || r.Expiry != wall+2_000_000 {
		t.Errorf("back again: %+v, wall %d", r, wall)
	}
}
