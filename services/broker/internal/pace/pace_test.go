package pace

import (
	"testing"
	"time"
)

// looks gives when the looks of so long come.
func looks(p *Pacer, from, to time.Duration, place uint64, ages ...time.Duration) (at []time.Duration) {
	for now := from; now < to; now += time.Second / 10 {
		if p.Due(now) {
			at = append(at, now)
			p.Looked(now, place, ages...)
		}
	}
	return at
}

func TestRests(t *testing.T) {
	var p Pacer
	if n := len(looks(&p, 0, time.Minute, 7)); n != 10 { // 0, 1, 3, 7, 15, 23, …
		t.Errorf("%d looks in a minute", n)
	}
	p.Moved(time.Minute, 7)
	if p.Due(time.Minute + First) {
		t.Error("nothing moved")
	}
	p.Moved(time.Minute, 8)
	if !p.Due(time.Minute + First) {
		t.Error("it moved")
	}
	p.Need(time.Minute, 0)
	p.Need(time.Minute, time.Hour)
	if !p.Due(time.Minute) {
		t.Error("it was needed at once")
	}
}

func TestNoticesAges(t *testing.T) {
	for age, want := range map[time.Duration]time.Duration{0: rest, time.Second: First, 24 * time.Second: 3 * time.Second, time.Hour: rest} {
		var p Pacer
		at := looks(&p, 0, 2*time.Minute, 0, age)
		if got := at[len(at)-1] - at[len(at)-2]; got != want {
			t.Errorf("age %v: looked at every %v, want %v", age, got, want)
		}
	}
}
