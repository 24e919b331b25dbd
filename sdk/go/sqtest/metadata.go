package sqtest

import (
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// described is a topic as metadata has it; nil ranges = not found.
type described struct {
	namespace, name string
	id              uint64
	mapVersion      uint32
	ranges          []uint64
	batchMax        int
}

func (s *Server) metadata(req *frame.Request) reply {
	in, err := req.Message.Metadata()
	if err != nil {
		return refuse(wirecapnp.ErrorKind_invalid, "metadata is unreadable: %v", err)
	}
	names, err := in.Topics()
	if err != nil {
		return refuse(wirecapnp.ErrorKind_invalid, "metadata is unreadable: %v", err)
	}
	topics := make([]described, names.Len())
	for i := range topics {
		namespace, err := names.At(i).Namespace()
		if err != nil {
			return refuse(wirecapnp.ErrorKind_invalid, "metadata is unreadable: %v", err)
		}
		name, err := names.At(i).Name()
		if err != nil {
			return refuse(wirecapnp.ErrorKind_invalid, "metadata is unreadable: %v", err)
		}
		if namespace == "" {
			namespace = "default"
		}
		topics[i] = s.describe(namespace, name, in.AutoCreate())
	}
	return reply{fill: func(out wirecapnp.Response) error {
		metadata, err := out.NewMetadata()
		if err != nil {
			return err
		}
		list, err := metadata.NewTopics(int32(len(topics)))
		if err != nil {
			return err
		}
		for i, d := range topics {
			if err := d.write(list.At(i)); err != nil {
				return err
			}
		}
		return metadata.SetClusterId("sqtest")
	}}
}

func (s *Server) describe(namespace, name string, create bool) described {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.mu.topics[namespace+"/"+name]
	if t == nil && create && s.mu.autoCreate > 0 && len(s.mu.topics) < maxTopics {
		t = s.create(namespace+"/"+name, s.mu.autoCreate)
	}
	d := described{namespace: namespace, name: name, batchMax: s.mu.batchMax}
	if t != nil {
		d.id, d.mapVersion, d.ranges = t.id, t.mapVersion, t.ranges
	}
	return d
}

func (d described) write(out wirecapnp.MetadataReply_Topic) error {
	if err := out.SetNamespace(d.namespace); err != nil {
		return err
	}
	if err := out.SetName(d.name); err != nil {
		return err
	}
	if d.ranges == nil {
		remote, err := out.NewError()
		if err != nil {
			return err
		}
		return frame.Errorf(wirecapnp.ErrorKind_notFound, "topic %s/%s does not exist", d.namespace, d.name).Write(remote)
	}
	id, err := out.NewId()
	if err != nil {
		return err
	}
	id.SetLo(d.id)
	out.SetMapVersion(d.mapVersion)
	out.SetBatchBytesMax(uint32(d.batchMax))
	out.SetDurability(wirecapnp.Durability_none)
	partitions, err := out.NewPartitions(int32(len(d.ranges)))
	if err != nil {
		return err
	}
	for i, from := range d.ranges {
		p := partitions.At(i)
		p.SetIndex(uint32(i))
		p.SetHashFrom(from)
		p.SetEpoch(1)
		p.SetLeader(1)
	}
	return nil
}
