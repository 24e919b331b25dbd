package catalog

import (
	"context"
	"encoding/binary"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/services/coordinator/internal/members"
	"github.com/seedqueue/sq/services/coordinator/internal/placement"
)

// CreateTopic asks for a topic. Zero settings take the defaults of limits.go.
type CreateTopic struct {
	Topic        topology.Topic
	RequestID    string
	ValidateOnly bool
}

// CreateTopic makes a topic and places its partitions. It answers when all is written; ValidateOnly writes nothing and answers what would
// be, with a zero ID and ModRevision.
func (c *Catalog) CreateTopic(ctx context.Context, ask CreateTopic) (topology.Versioned[topology.Topic], error) {
	if ask.Topic.Namespace == "" {
		ask.Topic.Namespace = topology.DefaultNamespace
	}
	created, err := c.createTopic(ctx, ask)
	return created, fault.Wrap("create topic "+ask.Topic.FullName().String(), err)
}

func (c *Catalog) createTopic(ctx context.Context, ask CreateTopic) (topology.Versioned[topology.Topic], error) {
	none := topology.Versioned[topology.Topic]{}
	v, err := c.View()
	if err != nil {
		return none, err
	}
	req, err := newRequest(ask.RequestID, kindCreateTopic, ask.Topic)
	if err != nil {
		return none, err
	}
	brokers := c.brokers(v)
	topic := complete(ask.Topic, brokers, c.cfg.ReplicasDefault)
	if replay, ok, err := c.replayTopic(ctx, req); ok || err != nil {
		return replay, err
	}
	if err := checkNew(topic, brokers); err != nil {
		return none, err
	}
	namespace, err := c.vacant(ctx, topic.FullName())
	if err != nil {
		return none, err
	}
	if ask.ValidateOnly {
		return topology.Versioned[topology.Topic]{Value: topic}, nil
	}
	topic.ID = c.cfg.NewUUID()
	topic.Created = c.cfg.Clock.Now().UTC()
	defer c.begin(topic.ID)()
	first, err := c.writeAssignments(ctx, topic, brokers)
	if err != nil {
		return none, err
	}
	return c.publish(ctx, req, topic, namespace, first)
}

// replayTopic answers a request that was answered before.
func (c *Catalog) replayTopic(ctx context.Context, req *request) (topology.Versioned[topology.Topic], bool, error) {
	id, ok, err := c.replayed(ctx, req)
	if err != nil || !ok {
		return topology.Versioned[topology.Topic]{}, false, err
	}
	topic, found, err := get[topology.Topic](ctx, c.cfg.Store, topology.TopicKey(id))
	if err != nil {
		return topic, false, err
	}
	if !found || topic.Value.Deleted != nil {
		return topic, false, fault.Errorf(fault.NotFound, "the topic that requestId %q created was deleted since", req.id)
	}
	c.show(ctx, topic.ModRevision)
	return topic, true, nil
}

// vacant finds the namespace's revision, and refuses a name that is taken.
func (c *Catalog) vacant(ctx context.Context, name topology.Name) (namespace int64, err error) {
	found, ok, err := get[topology.Namespace](ctx, c.cfg.Store, topology.NamespaceKey(name.Namespace))
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, fault.Errorf(fault.NotFound, "namespace %q does not exist: create it first", name.Namespace)
	}
	_, taken, err := get[topology.TopicRef](ctx, c.cfg.Store, topology.NameKey(name))
	if err != nil {
		return 0, err
	}
	if taken {
		return 0, fault.Errorf(fault.Exists, "a topic with this name exists")
	}
	return found.ModRevision, nil
}

// writeAssignments places the partitions and writes them, those of partition 0 in the first Txn, whose revision it gives.
func (c *Catalog) writeAssignments(ctx context.Context, topic topology.Topic, brokers []members.Broker) (first int64, err error) {
	seed := binary.BigEndian.Uint64(topic.ID[8:])
	placed, err := placement.Place(brokers, int(topic.Partitions), int(topic.ReplicationFactor), seed)
	if err != nil {
		return 0, err //nolint:wrapcheck // says what is missing.
	}
	incarnations := make(map[partition.NodeID]partition.Incarnation, len(brokers))
	for _, b := range brokers {
		incarnations[b.ID] = b.Incarnation
	}
	for from := 0; from < len(placed); from += partitionsPerTxn {
		to := min(from+partitionsPerTxn, len(placed))
		var compares []topology.Compare
		var ops []topology.Op
		for i := from; i < to; i++ {
			key := topology.PartitionKey(partition.ID{Topic: topic.ID, Index: partition.Index(i)}) //nolint:gosec // within PartitionsMax.
			op, err := put(key, c.firstAssignment(placed[i], incarnations))
			if err != nil {
				return 0, err
			}
			compares, ops = append(compares, missing(key)), append(ops, op)
		}
		revision, ok, err := c.write(ctx, compares, ops)
		if err != nil {
			return 0, fault.Wrap("write assignments", definite(err))
		}
		if !ok { // The UUID is new, so only the term's guard can have failed.
			return 0, c.standby()
		}
		if from == 0 {
			first = revision
		}
	}
	return first, nil
}

// definite says of a write whose outcome is unknown that the whole request has none: the topic is not visible yet.
func definite(err error) error {
	if unknown(err) {
		return &fault.Error{Kind: fault.Unavailable, Err: err}
	}
	return err
}

// standby is the error after the guard has failed.
func (c *Catalog) standby() error {
	if _, err := c.cfg.Office.Guard(); err != nil {
		return err //nolint:wrapcheck // the answer itself.
	}
	return fault.Errorf(fault.Unavailable, "another coordinator has taken over: try again")
}

func (c *Catalog) firstAssignment(brokers []partition.NodeID, incarnations map[partition.NodeID]partition.Incarnation) topology.Assignment {
	replicas := make([]partition.Member, len(brokers))
	for i, id := range brokers {
		replicas[i] = partition.Member{Broker: id, Replica: c.cfg.NewUUID()}
	}
	leader := topology.Leader{Broker: brokers[0], Incarnation: incarnations[brokers[0]], Replica: replicas[0].Replica}
	return topology.First(leader, replicas)
}

// publish makes the topic visible. first is the revision of its first assignments: if reconcile has removed them meanwhile, because an
// earlier attempt of unknown outcome seemed dead, the topic must not appear without them.
func (c *Catalog) publish(
	ctx context.Context, req *request, topic topology.Topic, namespace, first int64,
) (topology.Versioned[topology.Topic], error) {
	c.namespaces.RLock()
	defer c.namespaces.RUnlock()
	none := topology.Versioned[topology.Topic]{}
	name := topic.FullName()
	compares, ops, err := c.record(ctx, req, topic.ID)
	if err != nil {
		return none, err
	}
	nameOp, err := put(topology.NameKey(name), topology.TopicRef{V: topology.SchemaVersion, ID: topic.ID})
	if err != nil {
		return none, err
	}
	topicOp, err := put(topology.TopicKey(topic.ID), topic)
	if err != nil {
		return none, err
	}
	compares = append(
		compares, missing(nameOp.Key), missing(topicOp.Key), unchanged(topology.NamespaceKey(name.Namespace), namespace),
		unchanged(topology.PartitionKey(partition.ID{Topic: topic.ID}), first),
	)
	revision, ok, err := c.write(ctx, compares, append(ops, nameOp, topicOp))
	if unknown(err) {
		return c.resolve(ctx, topic.ID, err)
	}
	if err == nil && ok {
		c.show(ctx, revision)
		return topology.Versioned[topology.Topic]{Value: topic, CreateRevision: revision, ModRevision: revision}, nil
	}
	c.forget(ctx, req)
	if err != nil {
		return none, err
	}
	return c.beaten(ctx, req, name)
}

// resolve finds out whether a topic of unknown outcome is there.
func (c *Catalog) resolve(ctx context.Context, id partition.UUID, cause error) (topology.Versioned[topology.Topic], error) {
	topic, ok, err := get[topology.Topic](ctx, c.cfg.Store, topology.TopicKey(id))
	if err != nil || !ok { // Not there yet may still come.
		return topology.Versioned[topology.Topic]{}, fault.Errorf(fault.OutcomeUnknown, "the store did not answer: repeat it with the same requestId: %w", cause)
	}
	c.show(ctx, topic.ModRevision)
	return topic, nil
}

// beaten says which compare of publish failed.
func (c *Catalog) beaten(ctx context.Context, req *request, name topology.Name) (topology.Versioned[topology.Topic], error) {
	if replay, ok, err := c.replayTopic(ctx, req); ok || err != nil {
		return replay, err
	}
	if _, err := c.vacant(ctx, name); err != nil {
		return topology.Versioned[topology.Topic]{}, err
	}
	return topology.Versioned[topology.Topic]{}, c.standby()
}
