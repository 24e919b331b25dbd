package nomination

import (
	"maps"
	"time"

	"github.com/seedqueue/sq/libs/partition"
)

const (
	holdFirst = 5 * time.Second
	holdLast  = 60 * time.Second
)

// Holds remembers when partitions were nominated last, so that suspicion and impatience do not chase a leadership around, and since when they
// have been electing.
type Holds struct {
	nominated map[partition.ID]hold
	electing  map[partition.ID]electing
}

type hold struct {
	at   time.Time
	hold time.Duration
}

type electing struct {
	epoch partition.Epoch
	since time.Time
}

// NewHolds makes one of a process that has nominated nobody yet.
func NewHolds() *Holds {
	return &Holds{nominated: map[partition.ID]hold{}, electing: map[partition.ID]electing{}}
}

// Nominated notes a nomination.
func (h *Holds) Nominated(id partition.ID, now time.Time) {
	last, was := h.nominated[id]
	next := hold{at: now, hold: holdFirst}
	if was && now.Sub(last.at) < holdLast+last.hold {
		next.hold = min(2*last.hold, holdLast)
	}
	h.nominated[id] = next
}

// Held tells whether a nomination was so lately that only facts justify another.
func (h *Holds) Held(id partition.ID, now time.Time) bool {
	last, was := h.nominated[id]
	return was && now.Sub(last.at) < last.hold
}

// Electing notes that a partition is, in an epoch.
func (h *Holds) Electing(id partition.ID, epoch partition.Epoch, now time.Time) {
	if h.electing[id].epoch != epoch {
		h.electing[id] = electing{epoch, now}
	}
}

// Elected notes that a partition is not electing.
func (h *Holds) Elected(id partition.ID) { delete(h.electing, id) }

// Stuck tells whether an epoch's election takes too long.
func (h *Holds) Stuck(id partition.ID, epoch partition.Epoch, now time.Time) bool {
	e, known := h.electing[id]
	return known && e.epoch == epoch && now.Sub(e.since) >= holdFirst
}

// Settle forgets what is of no use any more.
func (h *Holds) Settle(now time.Time) {
	maps.DeleteFunc(h.nominated, func(_ partition.ID, last hold) bool { return now.Sub(last.at) >= holdLast+last.hold })
}

// Keep forgets the elections of partitions that are not there any more.
func (h *Holds) Keep(there func(partition.ID) bool) {
	maps.DeleteFunc(h.electing, func(id partition.ID, _ electing) bool { return !there(id) })
}
