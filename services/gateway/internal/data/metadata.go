package data

import (
	"context"
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/topology"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/services/gateway/internal/route"
)

// described is a topic of a Metadata answer, or why there is none.
type described struct {
	name  topology.Name
	topic topology.Topic
	table route.Table
	err   error
}

// metadata tells what the View knows of topics. A missing one is waited for a moment, since it may just have been created, or is created
// where the client and the gateway's settings say so.
func (c *client) metadata(ctx context.Context, k *call) {
	in, err := k.req.Message.Metadata()
	if err != nil {
		k.fail(unreadable(err))
		return
	}
	names, err := c.readNames(in)
	if err != nil {
		k.fail(err)
		return
	}
	create := in.AutoCreate() && c.server.cfg.Creator != nil
	table := c.server.cfg.Router.Table()
	if !create {
		table = c.server.cfg.Router.Await(ctx, names...)
	}
	topics := make([]described, len(names))
	partitions := 0
	for i, name := range names {
		topics[i] = c.describe(ctx, table, name, create)
		partitions += int(topics[i].topic.Partitions)
	}
	if most := c.server.cfg.Limits.Partitions; partitions > most {
		k.fail(fault.Errorf(fault.TooLarge, "describe topics: they have %d partitions, one answer holds %d; ask for fewer topics", partitions, most))
		return
	}
	k.end(resultOK)
	_ = k.req.Reply(func(res wirecapnp.Response) error { // where it fails the connection has ended
		out, err := res.NewMetadata()
		if err != nil {
			return err //nolint:wrapcheck // frame says what it was building.
		}
		return c.server.fillMetadata(out, topics)
	}, nil)
}

func (c *client) readNames(in wirecapnp.MetadataRequest) ([]topology.Name, error) {
	list, err := in.Topics()
	if err != nil {
		return nil, unreadable(err)
	}
	if most := c.server.cfg.Limits.Topics; list.Len() > most {
		return nil, fault.Errorf(fault.TooLarge, "describe topics: %d names, one request holds %d", list.Len(), most)
	}
	names := make([]topology.Name, 0, list.Len())
	for i := range list.Len() {
		namespace, err := list.At(i).Namespace()
		if err != nil {
			return nil, unreadable(err)
		}
		topic, err := list.At(i).Name()
		if err != nil {
			return nil, unreadable(err)
		}
		if namespace == "" {
			namespace = topology.DefaultNamespace
		}
		names = append(names, topology.Name{Namespace: namespace, Topic: topic})
	}
	return names, nil
}

func (c *client) describe(ctx context.Context, table route.Table, name topology.Name, create bool) described {
	topic, err := table.Topic(name)
	if create && fault.Is(err, fault.NotFound) {
		table, topic, err = c.server.cfg.Router.Ensure(ctx, name, c.server.cfg.Creator)
	}
	return described{name: name, topic: topic, table: table, err: err}
}

func (s *Server) fillMetadata(out wirecapnp.MetadataReply, topics []described) error {
	if err := out.SetClusterId(s.cfg.Router.Table().ClusterID().String()); err != nil {
		return fmt.Errorf("set cluster id: %w", err)
	}
	list, err := out.NewTopics(int32(len(topics)))
	if err != nil {
		return fmt.Errorf("make topics: %w", err)
	}
	for i := range topics {
		if err := topics[i].fill(list.At(i)); err != nil {
			return fmt.Errorf("describe topic: %w", err)
		}
	}
	return nil
}

func (d *described) fill(out wirecapnp.MetadataReply_Topic) error {
	if err := out.SetNamespace(d.name.Namespace); err != nil {
		return err //nolint:wrapcheck // the caller says what it was building.
	}
	if err := out.SetName(d.name.Topic); err != nil {
		return err //nolint:wrapcheck // as above.
	}
	if d.err != nil {
		wire, err := out.NewError()
		if err != nil {
			return err //nolint:wrapcheck // as above.
		}
		return remote(d.err).Write(wire) //nolint:wrapcheck // as above.
	}
	uuid, err := out.NewId()
	if err != nil {
		return err //nolint:wrapcheck // as above.
	}
	hi, lo := d.topic.ID.Halves()
	uuid.SetHi(hi)
	uuid.SetLo(lo)
	out.SetMapVersion(d.topic.MapVersion)
	out.SetBatchBytesMax(d.topic.BatchBytesMax)
	out.SetDurability(wirecapnp.Durability_fsyncQuorum)
	if d.topic.Durability == topology.DurabilityRelaxed {
		out.SetDurability(wirecapnp.Durability_writtenQuorum)
	}
	list, err := out.NewPartitions(int32(d.topic.Partitions))
	if err != nil {
		return err //nolint:wrapcheck // as above.
	}
	for i := range int(d.topic.Partitions) {
		p := list.At(i)
		p.SetIndex(uint32(i))
		p.SetHashFrom(batch.HashFrom(i, int(d.topic.Partitions)))
		if leader, err := d.table.Leader(partition.ID{Topic: d.topic.ID, Index: partition.Index(i)}); err == nil {
			p.SetEpoch(uint64(leader.Epoch))
			p.SetLeader(uint64(leader.Node))
		}
	}
	return nil
}
