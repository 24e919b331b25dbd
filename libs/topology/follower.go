package topology

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seedqueue/sq/libs/backoff"
	"github.com/seedqueue/sq/libs/clock"
)

// How a Follower looks after itself.
const (
	// relistEvery is how often what changed is listed beside the watch, since watches have lost events.
	relistEvery = 30 * time.Second
	// relistFullEvery is the same for deletions, which only a whole list shows, in relists.
	relistFullEvery = 10
	retryFirst      = 100 * time.Millisecond
	retryLast       = 5 * time.Second
	// coalesceMax bounds how many revisions become one View.
	coalesceMax = 1024
	// A View that took copying of many entries is followed by a pause in proportion: what happens meanwhile becomes one View.
	pauseFrom     = 1000 // entries
	pausePerEntry = time.Microsecond
	pauseMax      = 100 * time.Millisecond
)

var errWatchEnded = errors.New("watch ended")

// Follower keeps a View of the cluster's metadata. Readers never wait for it: they get the newest View there is. A View has everything up to
// its Revision; what the periodic list finds that the watch has not delivered yet is in it too.
type Follower struct {
	store Store
	log   *slog.Logger
	clock clock.Clock

	current atomic.Pointer[snapshot]

	mu struct {
		sync.Mutex

		known  map[string]int64 // key → ModRevision of what the View is made of, undecodable values included
		listed int64            // revision of the last list: what a watch lost is behind it
	}
}

type snapshot struct {
	view    *View
	changed chan struct{}
}

// NewFollower makes a follower with an empty View (Revision 0). Run makes it follow.
func NewFollower(store Store, log *slog.Logger, clk clock.Clock) *Follower {
	f := &Follower{store: store, log: log, clock: clk}
	f.current.Store(&snapshot{view: emptyView(), changed: make(chan struct{})})
	f.mu.known = map[string]int64{}
	return f
}

// View gives the newest View; Revision 0 = nothing was read yet. It is never nil.
func (f *Follower) View() *View { return f.current.Load().view }

// Changed gives a channel that is closed at the next change. Take it before the View that is looked at, or a change between is missed.
func (f *Follower) Changed() <-chan struct{} { return f.current.Load().changed }

// WaitFor waits for a View that fits and gives it.
func (f *Follower) WaitFor(ctx context.Context, fits func(*View) bool) (*View, error) {
	for {
		now := f.current.Load()
		if fits(now.view) {
			return now.view, nil
		}
		select {
		case <-now.changed:
		case <-ctx.Done():
			return nil, ctx.Err() //nolint:wrapcheck // the caller's own context.
		}
	}
}

// Refresh lists everything anew, linearizably: the View afterwards is at least as new as what was committed when it was called.
func (f *Follower) Refresh(ctx context.Context) error {
	kvs, revision, err := f.store.List(ctx, Root, 0)
	if err != nil {
		return err //nolint:wrapcheck // the store says what was attempted.
	}
	f.install(kvs, revision, true)
	return nil
}

// Run follows the store until ctx ends, and then returns nil. What goes wrong meanwhile is logged and tried again: the View only grows old.
func (f *Follower) Run(ctx context.Context) error {
	retry := retryFirst
	for ctx.Err() == nil {
		err := f.Refresh(ctx)
		if err == nil {
			retry = retryFirst
			err = f.follow(ctx)
		}
		if ctx.Err() == nil {
			f.log.Warn("topology watch broken, listing anew", "err", err, "retry", retry)
			_ = backoff.Sleep(ctx, f.clock, retry) // the loop looks at ctx
			retry = min(2*retry, retryLast)
		}
	}
	return nil
}

// follow watches from the View's revision on until the watch breaks or ctx ends.
func (f *Follower) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	watch := f.store.Watch(ctx, Root, f.View().Revision+1)
	defer func() {
		cancel()
		for range watch { // joins the store's goroutine
		}
	}()
	timer := f.clock.NewTimer(relistEvery)
	defer timer.Stop()
	for relists := 1; ; {
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // Run looks at it.
		case events, ok := <-watch:
			work, err := f.take(events, ok, watch)
			if err != nil {
				return err
			}
			if work >= pauseFrom {
				_ = backoff.Sleep(ctx, f.clock, min(time.Duration(work)*pausePerEntry, pauseMax)) // the loop looks at ctx
			}
		case <-timer.C():
			if err := f.relist(ctx, relists%relistFullEvery == 0); err != nil {
				return err
			}
			relists++
			timer.Reset(relistEvery)
		}
	}
}

func (f *Follower) relist(ctx context.Context, full bool) error {
	if full {
		return f.Refresh(ctx)
	}
	f.mu.Lock()
	from := f.mu.listed + 1
	f.mu.Unlock()
	kvs, revision, err := f.store.List(ctx, Root, from)
	if err != nil {
		return err //nolint:wrapcheck // the store says what was attempted.
	}
	f.install(kvs, revision, false)
	return nil
}

// take applies events, and all that wait behind them, as one View. It tells how many entries that has copied.
func (f *Follower) take(events Events, ok bool, watch <-chan Events) (work int, err error) {
	var batch []Events
	var end error
	for end == nil {
		switch {
		case !ok:
			end = errWatchEnded
		case events.Err != nil:
			end = events.Err
		default:
			batch = append(batch, events)
		}
		if end != nil || len(batch) == coalesceMax {
			break
		}
		more := false
		select {
		case events, ok = <-watch:
			more = true
		default:
		}
		if !more {
			break
		}
	}
	return f.apply(batch), end
}

func (f *Follower) apply(batch []Events) (work int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change := f.begin()
	for _, events := range batch {
		if events.Revision <= change.view.Revision {
			continue // a list was newer
		}
		for _, c := range events.Changes {
			if c.Deleted {
				f.drop(change, c.KV.Key, c.KV.ModRevision)
			} else {
				f.put(change, c.KV)
			}
		}
		change.view.Revision = events.Revision
	}
	f.publish(change)
	return change.work
}

// install applies a list as of a revision; a whole one also shows what was deleted.
func (f *Follower) install(kvs []KV, revision int64, whole bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change := f.begin()
	if revision < change.view.Revision {
		return // a watch was quicker
	}
	f.mu.listed = revision
	listed := make(map[string]struct{}, len(kvs))
	for _, kv := range kvs {
		listed[kv.Key] = struct{}{}
		f.put(change, kv)
	}
	if whole {
		for key := range f.mu.known {
			if _, ok := listed[key]; !ok {
				f.drop(change, key, revision)
			}
		}
		change.view.Revision = revision // a list of changes does not show deletions: those of the watch must still count
	}
	f.publish(change)
}

func (f *Follower) begin() *fold { return newFold(f.View()) }

func (f *Follower) put(change *fold, kv KV) {
	if f.mu.known[kv.Key] >= kv.ModRevision {
		return
	}
	followed, err := change.put(kv)
	if err != nil {
		f.log.Error("topology value refused, the old one stays", "key", kv.Key, "revision", kv.ModRevision, "err", err)
	}
	if followed {
		f.mu.known[kv.Key] = kv.ModRevision
		change.changed = true
	}
}

func (f *Follower) drop(change *fold, key string, revision int64) {
	if known, ok := f.mu.known[key]; !ok || known > revision {
		return
	}
	delete(f.mu.known, key)
	change.drop(key)
	change.changed = true
}

func (f *Follower) publish(change *fold) {
	if !change.changed && change.view.Revision == f.View().Revision {
		return
	}
	old := f.current.Swap(&snapshot{view: &change.view, changed: make(chan struct{})})
	close(old.changed)
}
