package catalog

import (
	"context"
	"slices"
	"strings"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
)

// Topic finds a topic by name in the view.
func (c *Catalog) Topic(ctx context.Context, name topology.Name) (topology.Versioned[topology.Topic], *topology.View, error) {
	v, err := c.Fresh(ctx)
	if err != nil {
		return topology.Versioned[topology.Topic]{}, nil, err
	}
	topic, ok := v.Topic(name)
	if !ok {
		return topic, nil, noTopic(name)
	}
	return topic, v, nil
}

func noTopic(name topology.Name) error {
	return fault.Errorf(fault.NotFound, "topic %q does not exist", name.String())
}

// Topics lists the topics of a namespace by name, at most limit of those behind the name after. more tells whether others follow.
func (c *Catalog) Topics(ctx context.Context, namespace, after string, limit int) (topics []topology.Versioned[topology.Topic], more bool, err error) {
	v, err := c.Fresh(ctx)
	if err != nil {
		return nil, false, err
	}
	if _, ok := v.Namespaces[namespace]; !ok {
		return nil, false, fault.Errorf(fault.NotFound, "namespace %q does not exist", namespace)
	}
	for name, id := range v.Names {
		if topic, ok := v.Topics[id]; ok && name.Namespace == namespace && name.Topic > after {
			topics = append(topics, topic)
		}
	}
	slices.SortFunc(topics, func(a, b topology.Versioned[topology.Topic]) int { return strings.Compare(a.Value.Name, b.Value.Name) })
	if len(topics) > limit {
		return topics[:limit], true, nil
	}
	return topics, false, nil
}

// AlterTopic asks for a change of a topic's settings.
type AlterTopic struct {
	Name topology.Name
	// ModRevision that the topic must have, 0 = any.
	ModRevision int64
	// Change sets what is to be changed; zero where a default exists asks for the default. It may be called several times.
	Change       func(*topology.Topic) error
	ValidateOnly bool
}

// AlterTopic changes settings. The identity, the partition count cannot change; another replication factor is
// carried out by reconcile, partition by partition.
func (c *Catalog) AlterTopic(ctx context.Context, ask AlterTopic) (topology.Versioned[topology.Topic], error) {
	for range triesMax {
		altered, done, err := c.alterOnce(ctx, ask)
		if done || err != nil {
			return altered, fault.Wrap("alter topic "+ask.Name.String(), err)
		}
	}
	return topology.Versioned[topology.Topic]{}, errRaced("alter topic " + ask.Name.String())
}

func (c *Catalog) alterOnce(ctx context.Context, ask AlterTopic) (topology.Versioned[topology.Topic], bool, error) {
	topic, _, err := c.read(ctx, ask.Name)
	if err != nil {
		return topic, false, err
	}
	if ask.ModRevision != 0 && ask.ModRevision != topic.ModRevision {
		return topic, false, fault.Errorf(fault.Conflict, "etag: %d is not the topic's, which is %d: read the topic again", ask.ModRevision, topic.ModRevision)
	}
	next := topic.Value
	if err := ask.Change(&next); err != nil {
		return topic, false, err
	}
	next = settle(next)
	if next.Partitions != topic.Value.Partitions {
		return topic, false, fault.Errorf(fault.Invalid, "partitions: %d cannot be changed to %d: create another topic", topic.Value.Partitions, next.Partitions)
	}
	if next.ReplicationFactor != topic.Value.ReplicationFactor {
		if err := CheckFactor(next.ReplicationFactor, c.brokers(c.cfg.Views.View())); err != nil {
			return topic, false, err
		}
	}
	if err := checkSettings(next); err != nil {
		return topic, false, err
	}
	if next == topic.Value || ask.ValidateOnly {
		topic.Value = next
		return topic, true, nil
	}
	op, err := put(topology.TopicKey(next.ID), next)
	if err != nil {
		return topic, false, err
	}
	revision, ok, err := c.write(ctx, []topology.Compare{unchanged(op.Key, topic.ModRevision)}, []topology.Op{op})
	if unknown(err) && ask.ModRevision == 0 {
		return topic, false, nil // The next round reads what is, and finds nothing to do if it was applied.
	}
	if err != nil || !ok {
		return topic, false, err
	}
	c.show(ctx, revision)
	topic.Value, topic.ModRevision = next, revision
	return topic, true, nil
}

// read finds a topic by name, linearizably, with the revision of its name.
func (c *Catalog) read(ctx context.Context, name topology.Name) (topic topology.Versioned[topology.Topic], nameRevision int64, err error) {
	if _, err := c.cfg.Office.Guard(); err != nil {
		return topic, 0, err //nolint:wrapcheck // the answer itself.
	}
	for range triesMax {
		ref, ok, err := get[topology.TopicRef](ctx, c.cfg.Store, topology.NameKey(name))
		if err != nil {
			return topic, 0, err
		}
		if !ok {
			return topic, 0, noTopic(name)
		}
		topic, ok, err = get[topology.Topic](ctx, c.cfg.Store, topology.TopicKey(ref.Value.ID))
		if err != nil {
			return topic, 0, err
		}
		if ok && topic.Value.Deleted == nil {
			return topic, ref.ModRevision, nil
		}
		// Deleted between the two reads: the name is free or another's by now.
	}
	return topic, 0, errRaced("read topic " + name.String())
}

// DeleteTopic frees a topic's name and leaves a tombstone. id must be the topic's where it is not zero.
func (c *Catalog) DeleteTopic(ctx context.Context, name topology.Name, id partition.UUID) error {
	for range triesMax {
		if done, err := c.deleteOnce(ctx, name, id); done || err != nil {
			return fault.Wrap("delete topic "+name.String(), err)
		}
	}
	return errRaced("delete topic " + name.String())
}

func (c *Catalog) deleteOnce(ctx context.Context, name topology.Name, id partition.UUID) (bool, error) {
	topic, nameRevision, err := c.read(ctx, name)
	if err != nil {
		return false, err
	}
	if !id.IsZero() && id != topic.Value.ID {
		return false, fault.Errorf(fault.Conflict, "id: the topic of this name is %s", topic.Value.ID)
	}
	now := c.cfg.Clock.Now().UTC()
	topic.Value.Deleted = &now
	tombstone, err := put(topology.TopicKey(topic.Value.ID), topic.Value)
	if err != nil {
		return false, err
	}
	nameKey := topology.NameKey(name)
	revision, ok, err := c.write(
		ctx,
		[]topology.Compare{unchanged(nameKey, nameRevision), unchanged(tombstone.Key, topic.ModRevision)},
		[]topology.Op{{Key: nameKey, Delete: true}, tombstone},
	)
	if unknown(err) {
		return c.deleted(ctx, topic.Value.ID, err)
	}
	if err != nil || !ok {
		return false, err
	}
	c.show(ctx, revision)
	return true, nil
}

// deleted finds out whether a delete of unknown outcome was applied.
func (c *Catalog) deleted(ctx context.Context, id partition.UUID, cause error) (bool, error) {
	topic, ok, err := get[topology.Topic](ctx, c.cfg.Store, topology.TopicKey(id))
	if err != nil {
		return false, cause
	}
	return !ok || topic.Value.Deleted != nil, nil
}
