package roster

import (
	"context"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/services/broker/internal/disk"
)

// openPool opens the disk's pool of files that are used again.
func openPool(fsys vfs.FS) (*pool.Pool, error) {
	usage, err := fsys.Usage()
	if err != nil {
		return nil, fault.Errorf(fault.DiskPoisoned, "open pool: %w", err)
	}
	bytes := int64(min(poolBytesMax, usage.Total/poolPart)) //nolint:gosec // it is at most poolBytesMax.
	p, err := pool.New(fsys, "pool", pool.Limits{FileBytes: poolFileBytes, PoolBytes: bytes})
	return p, fault.Wrap("open pool", err)
}

// keepPool gives the pool's room back while the disk refuses anything for lack of it.
func (r *Roster) keepPool(ctx context.Context) {
	r.every(ctx, poolEvery, func() {
		if state := r.deps.Disk.State(); state != disk.RefusesRecords && state != disk.RefusesAppends {
			return
		}
		if err := r.pool.Shrink(0); err != nil {
			r.fail(fault.Wrap("give the room of the pool back", err))
		}
	})
}
