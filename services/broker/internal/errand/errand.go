package errand

import (
	"context"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/clock"
)

// Runner runs errands.
type Runner interface {
	// Go runs a call that may wait, until ctx ends.
	Go(call func(ctx context.Context))
	// After calls do after a while, unless Stop comes first.
	After(wait time.Duration, do func())
	// Await is called before a caller waits for something that ready tells of. With goroutines the wait itself does; by hand others have
	// their turn until ready.
	Await(ready func() bool)
	// Stop ends what waits.
	Stop()
	// Wait returns when every call has returned.
	Wait()
}

// New makes a Runner with goroutines. ctx gives the values of the calls' context; its end does not end them.
func New(ctx context.Context, c clock.Clock) Runner {
	r := &goroutines{clock: c}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

type goroutines struct {
	clock   clock.Clock
	ctx     context.Context //nolint:containedctx // it is the calls'.
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (r *goroutines) Go(call func(ctx context.Context)) { r.running.Go(func() { call(r.ctx) }) }

func (r *goroutines) After(wait time.Duration, do func()) {
	r.Go(func(ctx context.Context) {
		timer := r.clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
		case <-timer.C():
			do()
		}
	})
}

func (r *goroutines) Await(func() bool) {}

func (r *goroutines) Stop() { r.cancel() }

func (r *goroutines) Wait() { r.running.Wait() }
