package roster

import (
	"context"

	"github.com/seedqueue/sq/services/broker/internal/replica"
)

// Serving lists the replicas that are open and serve.
func (r *Roster) Serving() []*replica.Replica { return r.replicas() }

// Bulk has a read done by the disk's workers, behind everything else that they have to do, and waits for it. It fails when ctx has ended
// before; the job is then not done, or its end is awaited.
func (r *Roster) Bulk(ctx context.Context, job func()) error {
	select {
	case <-r.started:
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller's own.
	}
	done := make(chan struct{})
	r.workers.DoBulk(func() {
		defer close(done)
		job()
	})
	<-done
	return ctx.Err() //nolint:wrapcheck // the caller's own.
}
