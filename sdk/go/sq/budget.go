package sq

import (
	"context"
	"fmt"
	"sync"
)

// budget bounds the bytes that a client buffers. Each holder has an account, which has a limit of its own. Readers together may hold half
// of it, so that a loop which sends what it reads never waits for itself.
type budget struct {
	mu struct {
		sync.Mutex
		total, used int
		reading     int           // part of used that readers hold
		freed       chan struct{} // closed at the next release; nil = nobody waits
	}
}

// account is what one holder has of a budget. used is guarded by the budget's mu.
type account struct {
	budget  *budget
	limit   int
	reading bool
	used    int
}

func newBudget(total int) *budget {
	b := &budget{}
	b.mu.total = total
	return b
}

// account opens an account with a limit.
func (b *budget) account(limit int, reading bool) *account {
	return &account{budget: b, limit: limit, reading: reading}
}

// fits needs mu. A reader that holds nothing may always take: its loop must be able to go on.
func (a *account) fits(n int) bool {
	m := &a.budget.mu
	if a.reading {
		return a.used == 0 || a.used+n <= a.limit && m.reading+n <= m.total/2 && m.used+n <= m.total
	}
	return a.used+n <= a.limit && m.used+n <= m.total
}

// add needs mu.
func (a *account) add(n int) {
	a.used += n
	a.budget.mu.used += n
	if a.reading {
		a.budget.mu.reading += n
	}
}

// take waits for room for n bytes until ctx or done ends; done ends it with ErrClosed.
func (a *account) take(ctx context.Context, done <-chan struct{}, n int) error {
	for {
		a.budget.mu.Lock()
		if !a.reading && n > min(a.limit, a.budget.mu.total) {
			limit := min(a.limit, a.budget.mu.total)
			a.budget.mu.Unlock()
			return &Error{Kind: KindTooLarge, Err: fmt.Errorf("%d bytes are more than the buffer of %d", n, limit)}
		}
		if a.fits(n) {
			a.add(n)
			a.budget.mu.Unlock()
			return nil
		}
		if a.budget.mu.freed == nil {
			a.budget.mu.freed = make(chan struct{})
		}
		freed := a.budget.mu.freed
		a.budget.mu.Unlock()
		select {
		case <-freed:
		case <-done:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// adjust takes n more bytes, or gives back if n is negative, without waiting: the bytes are there already.
func (a *account) adjust(n int) {
	if n == 0 {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.add(n)
	if a.used < 0 {
		panic("sq: more bytes given back than taken")
	}
	if n < 0 && a.budget.mu.freed != nil {
		close(a.budget.mu.freed)
		a.budget.mu.freed = nil
	}
}

// give gives n bytes back.
func (a *account) give(n int) { a.adjust(-n) }

// inUse tells the bytes taken in all.
func (b *budget) inUse() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}
