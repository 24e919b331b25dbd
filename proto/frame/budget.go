package frame

import (
	"context"
	"sync"
)

// Budget bounds the bytes of bodies in memory, over all connections that share it. A nil Budget is unbounded.
type Budget interface {
	// Reserve takes n bytes, waiting for room until ctx ends.
	Reserve(ctx context.Context, n int) error
	// Release gives n bytes back.
	Release(n int)
}

// tryBudget is a Budget that can answer at once; Reserve is then only called where there is no room.
type tryBudget interface {
	TryReserve(n int) bool
}

// MemoryBudget is a Budget of a fixed number of bytes. Waiters are not served in order: who asks for less may go first.
type MemoryBudget struct {
	total int
	mu    struct {
		sync.Mutex
		used  int
		freed chan struct{} // closed at the next Release; nil = nobody waits
	}
}

// NewBudget makes a Budget of total bytes.
func NewBudget(total int) *MemoryBudget { return &MemoryBudget{total: total} }

// TryReserve takes n bytes if there is room now.
func (b *MemoryBudget) TryReserve(n int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.take(n)
}

// take needs mu.
func (b *MemoryBudget) take(n int) bool {
	if n > b.total-b.mu.used {
		return false
	}
	b.mu.used += n
	return true
}

// Reserve takes n bytes, waiting for room until ctx ends; ErrOverBudget at once if n is more than the whole budget.
func (b *MemoryBudget) Reserve(ctx context.Context, n int) error {
	if n > b.total {
		return ErrOverBudget
	}
	for {
		b.mu.Lock()
		if b.take(n) {
			b.mu.Unlock()
			return nil
		}
		if b.mu.freed == nil {
			b.mu.freed = make(chan struct{})
		}
		freed := b.mu.freed
		b.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Release gives n bytes back.
func (b *MemoryBudget) Release(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.used -= n
	if b.mu.used < 0 {
		panic("frame: more bytes released than reserved")
	}
	if b.mu.freed != nil {
		close(b.mu.freed)
		b.mu.freed = nil
	}
}

// Used tells the bytes taken.
func (b *MemoryBudget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}

// Total tells the size of the budget.
func (b *MemoryBudget) Total() int { return b.total }
