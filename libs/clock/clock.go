package clock

import "time"

// Clock tells the time and wakes sleepers.
type Clock interface {
	// Now gives wall time with a monotonic reading, as time.Now does.
	Now() time.Time
	// NewTimer fires once, d from now, on C.
	NewTimer(d time.Duration) Timer
}

// Timer is a pending wake-up.
type Timer interface {
	// C receives the time once when the timer fires.
	C() <-chan time.Time
	// Stop ends the timer; false if it has fired or was stopped. It does not drain C.
	Stop() bool
	// Reset starts it anew; only for a stopped or drained timer.
	Reset(d time.Duration)
}
