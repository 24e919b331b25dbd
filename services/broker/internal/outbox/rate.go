package outbox

import (
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// Rate bounds what a broker sends to replicas that are far behind, all partitions together, so that it does not take the disk and the network
// from what is new. Safe for concurrent use. nil = no bound.
type Rate struct {
	clock  clock.Clock
	second int64 // bytes
	mu     struct {
		sync.Mutex
		free time.Time // when all that was taken is paid
	}
}

// NewRate makes a Rate of bytes a second.
func NewRate(c clock.Clock, second int64) *Rate { return &Rate{clock: c, second: second} }

// take takes bytes, or tells how long to wait before asking again.
func (r *Rate) take(bytes int64) time.Duration {
	if r == nil {
		return 0
	}
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.mu.free.Sub(now); wait > 0 {
		return wait
	}
	r.mu.free = now.Add(time.Duration(bytes) * time.Second / time.Duration(r.second))
	return 0
}
