package topology

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
)

// revokeTimeout bounds the tidying up of a lease that is of no use any more.
const revokeTimeout = 2 * time.Second

// RegisterParams of a process.
type RegisterParams struct {
	// Key is its /live key.
	Key string
	// Live is its value; V and Lease are filled in. Incarnation 0 takes the store's revision: later registrations get higher ones. Only a
	// broker, which has an ident, brings its own.
	Live Live
	// TTL of the lease.
	TTL time.Duration
	// Guards must hold for the write: a broker's Claim.Guard.
	Guards []Compare
}

// Registration is a process's leased /live key. Safe for concurrent use.
type Registration struct {
	store  Store
	params RegisterParams
	lost   chan struct{}

	mu struct {
		sync.Mutex

		live   Live
		lost   bool
		closed bool
	}
}

// Register writes a /live key under a new lease. An old key of the same id with a lower incarnation is replaced at once and its lease
// revoked: a process that was killed does not wait for its own old lease to run out. A higher incarnation is fault.Conflict.
func Register(ctx context.Context, store Store, params RegisterParams) (*Registration, error) {
	r := &Registration{store: store, params: params, lost: make(chan struct{})}
	r.params.Live.V = SchemaVersion
	if err := r.register(ctx); err != nil {
		return nil, fault.Wrap("register "+params.Key, err)
	}
	return r, nil
}

// Live gives the value as written last.
func (r *Registration) Live() Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.live
}

// Lost is closed when a later life of the process has taken the key.
func (r *Registration) Lost() <-chan struct{} { return r.lost }

// Renew renews the lease once. Where the lease has ended it registers anew, unless a later life has the key: then the registration is lost
// and the error is fault.Conflict. Renewals are not concurrent with each other.
func (r *Registration) Renew(ctx context.Context) error {
	live := r.Live()
	err := r.store.KeepAliveOnce(ctx, live.Lease)
	if err == nil {
		holder, _, _, err := r.holder(ctx)
		if err != nil {
			return fault.Wrap("renew "+r.params.Key, err)
		}
		if holder.Lease == live.Lease {
			return nil
		}
	} else if !errors.Is(err, ErrLeaseNotFound) {
		return fault.Wrap("renew "+r.params.Key, err)
	}
	return fault.Wrap("renew "+r.params.Key, r.register(ctx))
}

// Keep renews until ctx ends, four times in a TTL. It returns nil then, and fault.Conflict when the registration is lost.
func (r *Registration) Keep(ctx context.Context, clk clock.Clock, log *slog.Logger) error {
	timer := clk.NewTimer(r.params.TTL / 4)
	defer timer.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C():
		}
		err := r.Renew(ctx)
		switch {
		case fault.Is(err, fault.Conflict):
			return err
		case err != nil && ctx.Err() == nil && !failing:
			failing = true
			log.Warn("cannot renew registration", "key", r.params.Key, "err", err)
		case err == nil && failing:
			failing = false
			log.Info("registration renewed", "key", r.params.Key)
		}
		timer.Reset(r.params.TTL / 4)
	}
}

// Close revokes the lease, which deletes the key.
func (r *Registration) Close(ctx context.Context) error {
	r.mu.Lock()
	r.mu.closed = true
	id := r.mu.live.Lease
	r.mu.Unlock()
	return fault.Wrap("unregister "+r.params.Key, r.store.Revoke(ctx, id))
}

// holder reads who has the key.
func (r *Registration) holder(ctx context.Context) (live Live, kv KV, revision int64, err error) {
	kv, ok, revision, err := r.store.Get(ctx, r.params.Key)
	if err != nil || !ok {
		return Live{}, kv, revision, err //nolint:wrapcheck // the callers wrap it.
	}
	live, err = Decode[Live](kv.Value)
	return live, kv, revision, err
}

// register takes the key under a new lease.
func (r *Registration) register(ctx context.Context) error {
	lease, err := r.store.Grant(ctx, r.params.TTL)
	if err != nil {
		return err //nolint:wrapcheck // the callers wrap it.
	}
	taken, old, err := r.take(ctx, lease)
	if err != nil {
		r.tidy(ctx, lease)
		return err
	}
	r.mu.Lock()
	r.mu.live = taken
	closed := r.mu.closed
	r.mu.Unlock()
	if old != 0 && old != lease {
		r.tidy(ctx, old)
	}
	if closed {
		r.tidy(ctx, lease)
		return fault.Errorf(fault.Canceled, "take key: the registration was closed meanwhile")
	}
	return nil
}

// take writes the key under the lease, and gives the lease that held it before.
func (r *Registration) take(ctx context.Context, lease LeaseID) (taken Live, old LeaseID, err error) {
	incarnation := max(r.params.Live.Incarnation, r.Live().Incarnation)
	byRevision := incarnation == 0
	for {
		holder, kv, revision, err := r.holder(ctx)
		if err != nil {
			return Live{}, 0, err
		}
		if holder.Lease == lease {
			return holder, old, nil // an unanswered write was applied
		}
		if byRevision {
			incarnation = partition.Incarnation(revision) //nolint:gosec // revisions are positive.
		}
		if holder.Incarnation > incarnation {
			r.lose()
			return Live{}, 0, fault.Errorf(fault.Conflict, "take key: incarnation %d has it, this is %d: another process with the same id is running",
				holder.Incarnation, incarnation)
		}
		taken = r.params.Live
		taken.Incarnation, taken.Lease = incarnation, lease
		data, err := Encode(taken)
		if err != nil {
			return Live{}, 0, err
		}
		compares := append([]Compare{{Key: r.params.Key, Want: kv.ModRevision}}, r.params.Guards...)
		result, err := r.store.Txn(ctx, compares, []Op{{Key: r.params.Key, Value: data, Lease: lease}})
		if err != nil && !errors.Is(err, ErrUnavailable) {
			return Live{}, 0, err //nolint:wrapcheck // the callers wrap it.
		}
		old = kv.Lease
		if err == nil && result.Succeeded {
			return taken, old, nil
		}
		if err == nil {
			if err := r.guarded(ctx); err != nil {
				return Live{}, 0, err
			}
		}
	}
}

// guarded tells whether the guards still hold; where they do not, a later life has begun and the registration is lost.
func (r *Registration) guarded(ctx context.Context) error {
	for _, guard := range r.params.Guards {
		kv, _, _, err := r.store.Get(ctx, guard.Key)
		if err != nil {
			return err //nolint:wrapcheck // the callers wrap it.
		}
		have := kv.ModRevision
		switch guard.Target {
		case CompareCreateRevision:
			have = kv.CreateRevision
		case CompareVersion:
			have = kv.Version
		case CompareModRevision:
		}
		if have != guard.Want {
			r.lose()
			return fault.Errorf(fault.Conflict, "take key: %s has changed: a later life of this process has begun", guard.Key)
		}
	}
	return nil
}

// tidy revokes a lease that nobody needs; where that fails it runs out by itself.
func (r *Registration) tidy(ctx context.Context, lease LeaseID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), revokeTimeout)
	defer cancel()
	_ = r.store.Revoke(ctx, lease)
}

func (r *Registration) lose() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.mu.lost {
		r.mu.lost = true
		close(r.lost)
	}
}
