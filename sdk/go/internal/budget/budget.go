package budget

import (
	"context"
	"sync"

	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// Budget is bytes that accounts take and give back.
type Budget struct {
	mu struct {
		sync.Mutex
		total, used int
		reading     int           // part of used that readers hold
		freed       chan struct{} // closed at the next release; nil = nobody waits
	}
}

// Account is what one holder has of a Budget.
type Account struct {
	budget  *Budget
	limit   int
	reading bool
	used    int // guarded by the budget's mu
}

// New makes a budget of total bytes.
func New(total int) *Budget {
	b := &Budget{}
	b.mu.total = total
	return b
}

// Account opens an account with a limit.
func (b *Budget) Account(limit int, reading bool) *Account {
	return &Account{budget: b, limit: limit, reading: reading}
}

// fits needs mu. A reader that holds nothing may always take: its loop must be able to go on.
func (a *Account) fits(n int) bool {
	m := &a.budget.mu
	if a.reading {
		return a.used == 0 || a.used+n <= a.limit && m.reading+n <= m.total/2 && m.used+n <= m.total
	}
	return a.used+n <= a.limit && m.used+n <= m.total
}

// add needs mu.
func (a *Account) add(n int) {
	a.used += n
	a.budget.mu.used += n
	if a.reading {
		a.budget.mu.reading += n
	}
}

// Take waits for room for n bytes until ctx or done ends; done ends it with fault.ErrClosed. tooLarge: there will never be room.
func (a *Account) Take(ctx context.Context, done <-chan struct{}, n int) error {
	for {
		a.budget.mu.Lock()
		if !a.reading && n > min(a.limit, a.budget.mu.total) {
			limit := min(a.limit, a.budget.mu.total)
			a.budget.mu.Unlock()
			return fault.Errorf(wirecapnp.ErrorKind_tooLarge, "%d bytes are more than the buffer of %d", n, limit)
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
			return fault.ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Adjust takes n more bytes, or gives back if n is negative, without waiting: the bytes are there already.
func (a *Account) Adjust(n int) {
	if n == 0 {
		return
	}
	a.budget.mu.Lock()
	defer a.budget.mu.Unlock()
	a.add(n)
	if a.used < 0 {
		panic("budget: more bytes given back than taken")
	}
	if n < 0 && a.budget.mu.freed != nil {
		close(a.budget.mu.freed)
		a.budget.mu.freed = nil
	}
}

// Give gives n bytes back.
func (a *Account) Give(n int) { a.Adjust(-n) }

// Used tells the bytes taken in all.
func (b *Budget) Used() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.used
}
