package catalog

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
)

// Office is the right to write, which an election gives.
type Office interface {
	// Guard gives the compare for every write, or an error where this process is not the active coordinator.
	Guard() (topology.Compare, error)
	// Doubt says that a guarded write failed.
	Doubt()
}

// Views is the metadata as this process has seen it last.
type Views interface {
	View() *topology.View
	WaitFor(ctx context.Context, seen func(*topology.View) bool) (*topology.View, error)
	Refresh(ctx context.Context) error
}

// Config of a Catalog.
type Config struct {
	Store   topology.Store
	Views   Views
	Office  Office
	Clock   clock.Clock
	NewUUID func() partition.UUID
	Log     *slog.Logger
	// Reports are what the brokers say of themselves.
	Reports *reports.Book
	// ReplicasDefault is how many replicas a new topic gets where it does not say, and there are as many brokers; else it gets 1.
	ReplicasDefault int
}

// Catalog changes namespaces and topics.
type Catalog struct {
	cfg Config
	// namespaces is held for writing while a namespace is deleted and for reading while a name is written into one: the term's guard makes
	// this process the only writer, so a lock is enough to keep a topic out of a namespace that goes.
	namespaces sync.RWMutex

	mu struct {
		sync.Mutex

		creating map[partition.UUID]struct{}
	}
}

// New makes a catalog.
func New(cfg Config) *Catalog {
	c := &Catalog{cfg: cfg}
	c.mu.creating = map[partition.UUID]struct{}{}
	return c
}

// Creating tells whether a topic that has no settings yet is about to get them.
func (c *Catalog) Creating(id partition.UUID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.mu.creating[id]
	return ok
}

func (c *Catalog) begin(id partition.UUID) (end func()) {
	c.mu.Lock()
	c.mu.creating[id] = struct{}{}
	c.mu.Unlock()
	return func() {
		c.mu.Lock()
		delete(c.mu.creating, id)
		c.mu.Unlock()
	}
}

// View gives the metadata, or an error where this process is not the active coordinator.
func (c *Catalog) View() (*topology.View, error) {
	if _, err := c.cfg.Office.Guard(); err != nil {
		return nil, err //nolint:wrapcheck // the answer itself.
	}
	return c.cfg.Views.View(), nil
}

// Fresh gives metadata that is at least as new as this call: what anybody was told before is in it.
func (c *Catalog) Fresh(ctx context.Context) (*topology.View, error) {
	if _, err := c.cfg.Office.Guard(); err != nil {
		return nil, err //nolint:wrapcheck // the answer itself.
	}
	_, _, revision, err := c.cfg.Store.Get(ctx, topology.CoordinatorKey)
	if err != nil {
		return nil, fault.Errorf(fault.Unavailable, "read the topology: %w", err)
	}
	wait, cancel := context.WithTimeout(ctx, freshWait)
	defer cancel()
	v, err := c.cfg.Views.WaitFor(wait, func(v *topology.View) bool { return v.Revision >= revision })
	if err == nil {
		return v, nil
	}
	// The watch is late or has lost something, or the revision is of a key that is not SQ's, which it never shows.
	if err := c.cfg.Views.Refresh(ctx); err != nil {
		return nil, fault.Errorf(fault.Unavailable, "read the topology: %w", err)
	}
	return c.cfg.Views.View(), nil
}

// brokers are those of a view, with what they report.
func (c *Catalog) brokers(v *topology.View) []members.Broker {
	return members.Of(v, c.cfg.Reports.Now(c.cfg.Clock.Now()))
}

// write applies ops under the term's guard and compares. ok is false where a compare failed. An error of kind OutcomeUnknown leaves open
// whether they were applied.
func (c *Catalog) write(ctx context.Context, compares []topology.Compare, ops []topology.Op) (revision int64, ok bool, err error) {
	guard, err := c.cfg.Office.Guard()
	if err != nil {
		return 0, false, err //nolint:wrapcheck // the answer itself.
	}
	result, err := c.cfg.Store.Txn(ctx, append([]topology.Compare{guard}, compares...), ops)
	if err != nil {
		return 0, false, err //nolint:wrapcheck // the callers wrap it.
	}
	if !result.Succeeded {
		c.cfg.Office.Doubt()
	}
	return result.Revision, result.Succeeded, nil
}

// show waits until the view has a revision, so that who changed something sees it. It is best effort: the change is done.
func (c *Catalog) show(ctx context.Context, revision int64) {
	_, _ = c.cfg.Views.WaitFor(ctx, func(v *topology.View) bool { return v.Revision >= revision })
}

// errRaced is what is returned after triesMax lost races.
func errRaced(op string) error {
	return fault.Errorf(fault.Conflict, "%s: others change it at the same time: try again", op)
}

// get reads and decodes a key, linearizably.
func get[T any](ctx context.Context, store topology.Store, key string) (topology.Versioned[T], bool, error) {
	kv, ok, _, err := store.Get(ctx, key)
	if err != nil || !ok {
		return topology.Versioned[T]{}, false, err //nolint:wrapcheck // the callers wrap it.
	}
	value, err := topology.Decode[T](kv.Value)
	if err != nil {
		return topology.Versioned[T]{}, false, fault.Wrap("read "+key, err)
	}
	return topology.Versioned[T]{Value: value, CreateRevision: kv.CreateRevision, ModRevision: kv.ModRevision}, true, nil
}

func put(key string, value any) (topology.Op, error) {
	data, err := topology.Encode(value)
	if err != nil {
		return topology.Op{}, err //nolint:wrapcheck // names the type.
	}
	return topology.Op{Key: key, Value: data}, nil
}

func missing(key string) topology.Compare {
	return topology.Compare{Key: key, Target: topology.CompareModRevision, Want: 0}
}

func unchanged(key string, revision int64) topology.Compare {
	return topology.Compare{Key: key, Target: topology.CompareModRevision, Want: revision}
}

// unknown tells whether a write may have been applied although it returned err.
func unknown(err error) bool { return errors.Is(err, topology.ErrUnavailable) }
