package clock_test

import (
	"context"
	"testing"
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

var start = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

func fired(t clock.Timer) bool {
	select {
	case <-t.C():
		return true
	default:
		return false
	}
}

func TestManualStandsStill(t *testing.T) {
	m := clock.NewManual(start)
	timer := m.NewTimer(time.Nanosecond)
	if got := m.Now(); !got.Equal(start) || fired(timer) {
		t.Fatalf("the clock moved by itself to %v", got)
	}
}

func TestManualFiresInOrder(t *testing.T) {
	m := clock.NewManual(start)
	late, early, never := m.NewTimer(2*time.Second), m.NewTimer(time.Second), m.NewTimer(3*time.Second)
	m.Advance(2500 * time.Millisecond)
	first, second := <-early.C(), <-late.C()
	if !first.Equal(start.Add(time.Second)) || !second.Equal(start.Add(2*time.Second)) {
		t.Errorf("fired at %v and %v", first, second)
	}
	if fired(never) {
		t.Error("a timer beyond the step fired")
	}
	if got, want := m.Now(), start.Add(2500*time.Millisecond); !got.Equal(want) {
		t.Errorf("now %v, want %v", got, want)
	}
}

func TestManualStopAndReset(t *testing.T) {
	m := clock.NewManual(start)
	timer := m.NewTimer(time.Second)
	if !timer.Stop() {
		t.Error("Stop of a waiting timer was false")
	}
	if timer.Stop() {
		t.Error("Stop of a stopped timer was true")
	}
	m.Advance(time.Minute)
	if fired(timer) {
		t.Fatal("a stopped timer fired")
	}
	timer.Reset(time.Second)
	m.Advance(time.Second)
	if timer.Stop() {
		t.Error("Stop of a fired timer was true")
	}
	timer.Reset(time.Second) // the first firing was not taken
	if fired(timer) {
		t.Error("Reset left the time of the previous firing")
	}
	m.Advance(time.Second)
	if !fired(timer) {
		t.Error("a reset timer did not fire")
	}
}

func TestManualFiresAtOnceWithoutDelay(t *testing.T) {
	if m := clock.NewManual(start); !fired(m.NewTimer(0)) || !fired(m.NewTimer(-time.Second)) || m.Pending() != 0 {
		t.Error("a timer without delay waits")
	}
}

func TestManualAwaitPending(t *testing.T) {
	m := clock.NewManual(start)
	woken := make(chan time.Time)
	go func() { woken <- <-m.NewTimer(time.Hour).C() }()
	if err := m.AwaitPending(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	m.Advance(time.Hour)
	if got := <-woken; !got.Equal(start.Add(time.Hour)) {
		t.Errorf("woken at %v", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if m.AwaitPending(ctx, 1) == nil {
		t.Error("AwaitPending saw a timer where none is")
	}
}

func TestReal(t *testing.T) {
	c := clock.Real()
	before := c.Now()
	timer := c.NewTimer(time.Millisecond)
	<-timer.C()
	if c.Now().Sub(before) < time.Millisecond {
		t.Error("the timer fired early")
	}
	timer.Reset(time.Hour)
	if !timer.Stop() {
		t.Error("Stop of a waiting timer was false")
	}
}
