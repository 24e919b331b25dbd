package compact

import (
	"context"
	"fmt"
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// Turn is what the replicas of a disk share: one of them compacts at a time, so fast and with so much memory. Safe for concurrent use.
type Turn struct {
	taken  chan struct{}
	rate   int64
	memory int64
	clock  clock.Clock
}

// NewTurn makes a Turn; rate is in bytes a second, read and written together, memory is for the keys of a pass, in bytes.
func NewTurn(c clock.Clock, rate, memory int64) (*Turn, error) {
	if rate < RateMin || memory < MemoryMin {
		return nil, fmt.Errorf("compact %d bytes a second with %d bytes of keys: at least %d and %d", rate, memory, int64(RateMin), int64(MemoryMin))
	}
	return &Turn{taken: make(chan struct{}, 1), rate: rate, memory: memory, clock: c}, nil
}

// Take gives a pass the disk if no other has it. Give gives it back.
func (t *Turn) Take() bool {
	select {
	case t.taken <- struct{}{}:
		return true
	default:
		return false
	}
}

// Give ends what Take began.
func (t *Turn) Give() { <-t.taken }

// Memory is for the keys of a pass, in bytes.
func (t *Turn) Memory() int64 { return t.memory }

// Slice is how many bytes a pass handles before it calls Wait.
func (t *Turn) Slice() int64 { return max(t.rate*int64(burst)/int64(time.Second), 16<<10) }

// Wait lets as much time pass as bytes take. It ends early with ctx, with its error.
func (t *Turn) Wait(ctx context.Context, bytes int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	timer := t.clock.NewTimer(time.Duration(bytes) * time.Second / time.Duration(t.rate))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C():
		return nil
	}
}
