package roster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/segment/pool"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/services/broker/internal/commit"
	"github.com/seedqueue/sq/services/broker/internal/compact"
	"github.com/seedqueue/sq/services/broker/internal/disk"
	"github.com/seedqueue/sq/services/broker/internal/durability"
	"github.com/seedqueue/sq/services/broker/internal/install"
	"github.com/seedqueue/sq/services/broker/internal/journal"
	"github.com/seedqueue/sq/services/broker/internal/outbox"
	"github.com/seedqueue/sq/services/broker/internal/replica"
	"github.com/seedqueue/sq/services/broker/internal/workers"
)

// Config says whose roster it is.
type Config struct {
	Node        partition.NodeID
	Incarnation partition.Incarnation
	Claimed     int64 // revision at which the incarnation was claimed, with this disk; 0 = not known
	Cluster     partition.UUID
	// Sync is when appends are synced. A policy below every batch makes quorum topics weaker, which every ack then says.
	Sync   durability.Policy
	Limits replica.Limits
	// CompactRate is how fast the disk's topics are compacted, in bytes a second, 0 = not at all,
	// and CompactMemory what the keys of a pass may take.
	CompactRate, CompactMemory int64
	// CatchUpRate is how fast replicas elsewhere that are far behind are sent what they lack, in bytes a second, 0 = no bound.
	CatchUpRate int64
	// Redo says when small appends share a sync through the journal, and Commit bounds that.
	Redo   commit.Mode
	Commit commit.Limits
}

// View is the topology as it is followed; topology.Follower is one.
type View interface {
	View() *topology.View
	Changed() <-chan struct{}
}

// Deps is what a roster works with; it owns none of it.
type Deps struct {
	FS      vfs.FS      // of the data directory
	Disk    *disk.Watch // of FS; run by the owner
	Journal *journal.Journal
	State   journal.State // what the journal held when it was opened
	Store   topology.Store
	View    View
	Clock   clock.Clock
	Log     *slog.Logger
	Metrics *prometheus.Registry
	// Peers gives what carries the messages of a partition's replicas to other brokers. nil: there are no others.
	Peers func(partition.ID) outbox.Peers
}

// Roster holds this broker's replicas. New makes one, Run serves.
type Roster struct {
	cfg     Config
	deps    Deps
	workers *workers.Pool     // while Run runs
	commit  *commit.Committer // the same
	started chan struct{}     // closed when workers is set
	files   *segment.Files
	pool    *pool.Pool
	metrics *replica.Metrics
	swaps   chan struct{} // tokens of activatingMax
	opens   chan struct{} // tokens of openingMax
	failed  chan error
	retry   chan struct{} // a replica should be looked at again
	compact *compact.Turn // nil: nothing is compacted
	catchUp *outbox.Rate  // nil: no bound
	turn    atomic.Uint64 // where the next harvest begins
	opening sync.WaitGroup

	mu struct {
		sync.RWMutex
		held    map[partition.UUID]*held        // by replica
		here    map[partition.ID][]*held        // the same
		kept    map[partition.UUID]partition.ID // replicas that have data on this disk
		serving map[partition.ID]*replica.Replica
		harvest chan struct{} // closed when a harvest may have changed
		// What the goroutine that follows looks at again, with or without a new View.
		review    []partition.ID
		reviewAll bool
	}
}

// held is a replica that an assignment names here. Its fields are guarded by the roster's lock; revisions by the goroutine that follows.
type held struct {
	id       partition.ID
	replica  partition.UUID
	r        *replica.Replica // nil: not open
	err      error            // why not
	busy     bool             // opening or deleting
	retryAt  int64            // seconds; when an open that failed for lack of room is tried again
	revision int64            // of the assignment it was told
	standing standing
	deleted  bool
	again    bool // it has stopped and is to be opened again
}

// New makes a roster. What the journal holds of logs is brought into their files.
func New(cfg Config, deps Deps) (*Roster, error) {
	if cfg.Node == 0 || cfg.Incarnation == 0 || cfg.Cluster.IsZero() {
		return nil, fault.Errorf(fault.Invalid, "make roster: node %d, incarnation %d, cluster %s: none may be zero", cfg.Node, cfg.Incarnation, cfg.Cluster)
	}
	var turn *compact.Turn
	if cfg.CompactRate > 0 {
		var err error
		if turn, err = compact.NewTurn(deps.Clock, cfg.CompactRate, cfg.CompactMemory); err != nil {
			return nil, fault.Errorf(fault.Invalid, "make roster: %w", err)
		}
	}
	if err := deps.FS.MkdirAll(root); err != nil {
		return nil, fault.Errorf(fault.DiskPoisoned, "make replica directory: %w", err)
	}
	if err := deps.FS.SyncDir("."); err != nil {
		return nil, fault.Errorf(fault.DiskPoisoned, "make replica directory: %w", err)
	}
	if err := commit.Replay(deps.FS, deps.Journal, install.Logs(deps.FS, dirOf), deps.Log); err != nil {
		return nil, err //nolint:wrapcheck // says what was attempted.
	}
	spare, err := openPool(deps.FS)
	if err != nil {
		return nil, err
	}
	r := &Roster{
		cfg: cfg, deps: deps, files: segment.NewFiles(deps.FS, openFilesMax), pool: spare, metrics: replica.NewMetrics(deps.Metrics),
		swaps: make(chan struct{}, activatingMax), opens: make(chan struct{}, openingMax),
		failed: make(chan error, 1), retry: make(chan struct{}, 1), started: make(chan struct{}), compact: turn,
	}
	r.files.Recycle(spare)
	if cfg.CatchUpRate > 0 {
		r.catchUp = outbox.NewRate(deps.Clock, cfg.CatchUpRate)
	}
	r.mu.held, r.mu.here = map[partition.UUID]*held{}, map[partition.ID][]*held{}
	r.mu.serving = map[partition.ID]*replica.Replica{}
	r.mu.kept = make(map[partition.UUID]partition.ID, len(deps.State.Replicas))
	for id, kept := range deps.State.Replicas {
		r.mu.kept[id] = kept.ID
	}
	r.mu.harvest = make(chan struct{})
	if err := deps.Metrics.Register(collector{r}); err != nil {
		return nil, fault.Errorf(fault.Internal, "register roster metrics: %w", err)
	}
	return r, nil
}

// Run follows the topology until ctx ends, or until the disk has failed (fault.DiskPoisoned). Then it stops all replicas: what is being written is
// finished and answered.
func (r *Roster) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.workers = workers.New(workersPerDisk)
	defer r.workers.Close()
	committer, err := commit.New(commit.Config{
		Journal: r.deps.Journal, Workers: r.workers, Mode: r.cfg.Redo, Limits: r.cfg.Commit, Log: r.deps.Log, Metrics: r.deps.Metrics, Failed: r.fail,
	})
	if err != nil {
		return fault.Wrap("start commit", err)
	}
	r.commit = committer
	close(r.started)
	var parts sync.WaitGroup
	parts.Go(func() { r.follow(ctx) })
	parts.Go(func() { r.tick(ctx) })
	parts.Go(func() { r.keepMarks(ctx) })
	parts.Go(func() { r.keepPool(ctx) })
	select {
	case <-ctx.Done():
	case err = <-r.failed:
		r.failAll(err)
	}
	cancel()
	parts.Wait()
	r.opening.Wait()
	r.closeAll()
	if closing := committer.Close(); err == nil {
		err = ignoreFull(closing)
	}
	if err == nil {
		err = r.saveMarks(map[partition.UUID][3]partition.Offset{})
	}
	r.files.Close()
	return err
}

// closeAll stops the replicas, many at a time.
func (r *Roster) closeAll() {
	r.mu.Lock()
	var all []*replica.Replica
	for _, h := range r.mu.held {
		if h.r != nil {
			all = append(all, h.r)
		}
	}
	r.mu.serving = map[partition.ID]*replica.Replica{}
	r.mu.Unlock()
	var closing sync.WaitGroup
	for _, rep := range all {
		closing.Go(rep.Close)
	}
	closing.Wait()
}

// failAll stops the replicas at once: what they would write to a failed disk proves nothing.
func (r *Roster) failAll(err error) {
	r.deps.Disk.Poison(err)
	for _, rep := range r.all() {
		rep.Fail(err)
	}
}

// fail ends Run.
func (r *Roster) fail(err error) {
	select {
	case r.failed <- err:
	default:
	}
}

// Replica finds the open replica of a partition; ok is false where there is none here.
func (r *Roster) Replica(id partition.ID) (rep *replica.Replica, ok bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	rep, ok = r.mu.serving[id]
	return rep, ok
}

// Topic gives the settings of a topic that is not deleted.
func (r *Roster) Topic(id partition.UUID) (topology.Topic, bool) {
	t, ok := r.deps.View.View().Topics[id]
	return t.Value, ok && t.Value.Deleted == nil
}

// Ready tells why this broker does not serve all it should; nil if every partition whose leader it is is active.
func (r *Roster) Ready() error {
	view := r.deps.View.View()
	if view.Revision == 0 {
		return fault.Errorf(fault.Unavailable, "the topology is not known yet")
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	missing, mine := 0, 0
	var first error
	for topic, assignments := range view.Partitions {
		if t, ok := view.Topics[topic]; !ok || t.Value.Deleted != nil {
			continue
		}
		for i, a := range assignments {
			if a.ModRevision == 0 || a.Value.Leader.Broker != r.cfg.Node {
				continue
			}
			mine++
			id := partition.ID{Topic: topic, Index: partition.Index(i)}
			if rep, ok := r.mu.serving[id]; ok && rep.Active() {
				continue
			}
			missing++
			if h := r.mu.held[a.Value.Leader.Replica]; first == nil || h != nil && h.err != nil {
				first = notReady(id, h)
			}
		}
	}
	if missing == 0 {
		return nil
	}
	return fault.Errorf(fault.Unavailable, "%d of %d partitions led here are not active: %w", missing, mine, first)
}

func notReady(id partition.ID, h *held) error {
	if h != nil && h.err != nil {
		return fmt.Errorf("%s: %w", id, h.err)
	}
	if h == nil || h.r == nil {
		return fmt.Errorf("%s is being opened", id)
	}
	if reason := h.r.Unfit(); reason != "" {
		return fault.Errorf(fault.Corrupt, "%s has no leader: %s", id, reason)
	}
	return fmt.Errorf("%s waits for its epoch", id)
}

// all gives the replicas that are or were open, those that stopped by themselves included.
func (r *Roster) all() []*replica.Replica {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*replica.Replica, 0, len(r.mu.held))
	for _, h := range r.mu.held {
		if h.r != nil {
			all = append(all, h.r)
		}
	}
	return all
}

// replicas gives those that serve.
func (r *Roster) replicas() []*replica.Replica {
	r.mu.RLock()
	defer r.mu.RUnlock()
	all := make([]*replica.Replica, 0, len(r.mu.serving))
	for _, rep := range r.mu.serving {
		all = append(all, rep)
	}
	return all
}

func byPartition(a, b *replica.Replica) int {
	x, y := a.Partition(), b.Partition()
	if c := slices.Compare(x.Topic[:], y.Topic[:]); c != 0 {
		return c
	}
	return int(x.Index) - int(y.Index)
}
