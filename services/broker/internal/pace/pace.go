package pace

import (
	"sync/atomic"
	"time"
)

const (
	// First is the pause where something moves.
	First = time.Second
	rest  = 8 * time.Second
	// agePart is the share of an age by which it may be noticed late.
	agePart = 8
)

// Pacer paces the looks at one thing. Times are elapsed ones. The zero value is due.
type Pacer struct {
	next  atomic.Int64 // nanoseconds
	seen  uint64       // at the last look
	pause time.Duration
}

// Due tells whether a look is due.
func (p *Pacer) Due(elapsed time.Duration) bool { return int64(elapsed) >= p.next.Load() }

// Looked plans the look after one just now, at something that is at a place and has to notice ages; 0 = none.
func (p *Pacer) Looked(elapsed time.Duration, place uint64, ages ...time.Duration) {
	if p.seen != place || p.pause == 0 {
		p.seen, p.pause = place, First
	} else {
		p.pause = min(2*p.pause, longest(ages))
	}
	p.next.Store(int64(elapsed + p.pause))
}

// longest is the longest pause.
func longest(ages []time.Duration) time.Duration {
	most := rest
	for _, age := range ages {
		if age > 0 {
			most = min(most, age/agePart)
		}
	}
	return max(most, First)
}

// Moved brings the next look forward where the place is another one than at the last.
func (p *Pacer) Moved(elapsed time.Duration, place uint64) {
	if place != p.seen {
		p.Need(elapsed, First)
	}
}

// Need has the next look come within a time.
func (p *Pacer) Need(elapsed, within time.Duration) {
	if at := int64(elapsed + within); at < p.next.Load() {
		p.next.Store(at)
	}
}
