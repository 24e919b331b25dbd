package clock

import "time"

// Real gives the process's clock.
func Real() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() time.Time { return time.Now() }

func (realClock) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }

type realTimer struct{ timer *time.Timer }

func (t realTimer) C() <-chan time.Time   { return t.timer.C }
func (t realTimer) Stop() bool            { return t.timer.Stop() }
func (t realTimer) Reset(d time.Duration) { t.timer.Reset(d) }
