package export

import (
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/partition"
)

// forgetAfter is how long a table may be wanted without being asked for again: by then another tierer has the partition.
const forgetAfter = 3 * time.Minute

// Lag knows since when tables wait to be exported, over failed attempts.
type Lag struct {
	clock clock.Clock
	mu    struct {
		sync.Mutex

		wanted map[partition.ID]*wanted
	}
}

type wanted struct{ since, last time.Time }

func newLag(clk clock.Clock) *Lag {
	l := &Lag{clock: clk}
	l.mu.wanted = map[partition.ID]*wanted{}
	return l
}

// want notes that a table is to be exported.
func (l *Lag) want(id partition.ID) {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.mu.wanted[id]; w != nil && now.Sub(w.last) < forgetAfter {
		w.last = now
		return
	}
	l.mu.wanted[id] = &wanted{since: now, last: now}
}

// done notes that it was, and gives how long it took.
func (l *Lag) done(id partition.ID) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := l.mu.wanted[id]
	if w == nil {
		return 0
	}
	delete(l.mu.wanted, id)
	return l.clock.Now().Sub(w.since)
}

// Oldest tells how long the table has waited that waits longest; 0 where none does.
func (l *Lag) Oldest() time.Duration {
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest time.Duration
	for id, w := range l.mu.wanted {
		if now.Sub(w.last) >= forgetAfter {
			delete(l.mu.wanted, id)
			continue
		}
		oldest = max(oldest, now.Sub(w.since))
	}
	return oldest
}
