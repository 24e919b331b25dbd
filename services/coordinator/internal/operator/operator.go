package operator

import (
	"context"
	"log/slog"
	"time"

	"github.com/seedqueue/sq/libs/clock"
	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/catalog"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/reports"
	"github.com/seedqueue/sq/services/coordinator/internal/survey"
)

const (
	// surveyTimeout bounds the questions that an answer rests on.
	surveyTimeout = 2 * time.Second
	// partitionsPerTxn keeps a Txn within etcd's 128 operations.
	partitionsPerTxn = 100
	// triesMax bounds how often a lost race is run again.
	triesMax = 8
)

// Survey asks brokers.
type Survey interface {
	Positions(ctx context.Context, questions []survey.Question) (survey.Positions, map[partition.NodeID]error)
}

// Config of an Operator.
type Config struct {
	Store   topology.Store
	Views   catalog.Views
	Office  catalog.Office
	Catalog *catalog.Catalog
	Reports *reports.Book
	Survey  Survey
	Clock   clock.Clock
	NewUUID func() partition.UUID
	Log     *slog.Logger
}

// Operator does what operators ask for.
type Operator struct {
	cfg Config
}

// New makes one.
func New(cfg Config) *Operator { return &Operator{cfg: cfg} }

// look gives the metadata, if this process is the active coordinator, with the brokers in it.
func (o *Operator) look() (*topology.View, members.Index, error) {
	v, err := o.cfg.Catalog.View()
	if err != nil {
		return nil, nil, err //nolint:wrapcheck // the answer itself.
	}
	return v, members.ByID(members.Of(v, o.told())), nil
}

func (o *Operator) told() reports.Reports { return o.cfg.Reports.Now(o.cfg.Clock.Now()) }

// partition finds one by its topic's name.
func (o *Operator) partition(ctx context.Context, name topology.Name, index uint32) (partition.ID, topology.Versioned[topology.Assignment], error) {
	none := topology.Versioned[topology.Assignment]{}
	topic, v, err := o.cfg.Catalog.Topic(ctx, name)
	if err != nil {
		return partition.ID{}, none, err //nolint:wrapcheck // catalog says it all.
	}
	if index >= topic.Value.Partitions {
		return partition.ID{}, none, fault.Errorf(fault.Invalid, "partition: topic %s has partitions 0 to %d, not %d", name, topic.Value.Partitions-1, index)
	}
	id := partition.ID{Topic: topic.Value.ID, Index: partition.Index(index)}
	a, ok := v.Partition(id)
	if !ok {
		return id, none, fault.Errorf(fault.Unavailable, "partition %d of topic %s is not assigned yet: try again", index, name)
	}
	return id, a, nil
}

// write applies ops under the term's guard and compares, and shows them to this process. ok is false where a compare failed.
func (o *Operator) write(ctx context.Context, compares []topology.Compare, ops []topology.Op) (ok bool, err error) {
	guard, err := o.cfg.Office.Guard()
	if err != nil {
		return false, err //nolint:wrapcheck // the answer itself.
	}
	result, err := o.cfg.Store.Txn(ctx, append([]topology.Compare{guard}, compares...), ops)
	if err != nil {
		return false, err //nolint:wrapcheck // the callers wrap it.
	}
	if !result.Succeeded {
		o.cfg.Office.Doubt()
		return false, nil
	}
	_, _ = o.cfg.Views.WaitFor(ctx, func(v *topology.View) bool { return v.Revision >= result.Revision }) // best effort: it is written
	return true, nil
}

// writePartition replaces an assignment that is as it was seen.
func (o *Operator) writePartition(ctx context.Context, id partition.ID, revision int64, next topology.Assignment, more ...topology.Compare) (bool, error) {
	op, err := put(topology.PartitionKey(id), next)
	if err != nil {
		return false, err
	}
	return o.write(ctx, append([]topology.Compare{unchanged(op.Key, revision)}, more...), []topology.Op{op})
}

func put(key string, value any) (topology.Op, error) {
	data, err := topology.Encode(value)
	if err != nil {
		return topology.Op{}, err //nolint:wrapcheck // names the type.
	}
	return topology.Op{Key: key, Value: data}, nil
}

func unchanged(key string, revision int64) topology.Compare {
	return topology.Compare{Key: key, Target: topology.CompareModRevision, Want: revision}
}

// lives compares that a broker's live key is as a view has it.
func lives(v *topology.View, id partition.NodeID) topology.Compare {
	c := topology.Compare{Key: topology.BrokerLiveKey(id), Target: topology.CompareModRevision}
	if live := v.Brokers[id].Live; live != nil {
		c.Want = live.ModRevision
	}
	return c
}

func errRaced(op string) error {
	return fault.Errorf(fault.Conflict, "%s: it changes at the same time: try again", op)
}
