package gateway

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
	"github.com/seedqueue/sq/sdk/go/internal/fault"
)

// Name is a topic's, with its namespace.
type Name struct{ Namespace, Name string }

// ParseName reads "name" (in the namespace "default") or "namespace/name".
func ParseName(topic string) (Name, error) {
	namespace, name, found := strings.Cut(topic, "/")
	if !found {
		namespace, name = "default", topic
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return Name{}, fault.Errorf(wirecapnp.ErrorKind_invalid, "topic %q is not a name or namespace/name", topic)
	}
	return Name{namespace, name}, nil
}

// Topic is a topic's metadata at one moment.
type Topic struct {
	Name          Name
	IDHi, IDLo    uint64
	MapVersion    uint32
	BatchBytesMax int
	Durability    wirecapnp.Durability
	Partitions    []Partition // by index
	byHash        []int       // partitions in the order of their hash ranges
}

// Partition is a partition's metadata.
type Partition struct {
	HashFrom, Epoch uint64
	Leader          uint64 // 0 = none
}

// OfHash gives the partition that a key's hash belongs to: the last whose range begins at or below it.
func (t *Topic) OfHash(hash uint64) int {
	i := sort.Search(len(t.byHash), func(i int) bool { return t.Partitions[t.byHash[i]].HashFrom > hash })
	if i == 0 {
		i = len(t.byHash) // no range begins so low: a map that is not whole; the leader decides
	}
	return t.byHash[i-1]
}

// SameAs tells whether it is the same topic: one made anew under the same name is not.
func (t *Topic) SameAs(other *Topic) bool { return t.IDHi == other.IDHi && t.IDLo == other.IDLo }

// Check refuses a partition that the topic does not have.
func (t *Topic) Check(partition int) error {
	if partition < 0 || partition >= len(t.Partitions) {
		return fault.Errorf(wirecapnp.ErrorKind_notFound, "partition %d does not exist: the topic's are 0 to %d", partition, len(t.Partitions)-1)
	}
	return nil
}

// BatchLimit gives the largest batch that the topic takes.
func (t *Topic) BatchLimit() int {
	if t.BatchBytesMax <= 0 || t.BatchBytesMax > batch.MaxBytes {
		return batch.DefaultMaxBytes
	}
	return t.BatchBytesMax
}

// Write names the topic in a request.
func (t *Topic) Write(id batchcapnp.Uuid, err error) error {
	if err != nil {
		return err
	}
	id.SetHi(t.IDHi)
	id.SetLo(t.IDLo)
	return nil
}

// Metadata asks for a topic; create asks the gateway to make it if it is missing.
func Metadata(ctx context.Context, conn *frame.Client, name Name, create bool) (*Topic, error) {
	reply, err := conn.Call(ctx, func(req wirecapnp.Request) error { return fillMetadata(req, name, create) })
	if err != nil {
		return nil, err
	}
	defer reply.Release()
	return readTopic(reply.Response, name)
}

func fillMetadata(req wirecapnp.Request, name Name, create bool) error {
	metadata, err := req.NewMetadata()
	if err != nil {
		return err
	}
	metadata.SetAutoCreate(create)
	topics, err := metadata.NewTopics(1)
	if err != nil {
		return err
	}
	if err := topics.At(0).SetNamespace(name.Namespace); err != nil {
		return err
	}
	return topics.At(0).SetName(name.Name)
}

// readTopic takes the one topic of an answer apart.
func readTopic(response wirecapnp.Response, name Name) (*Topic, error) {
	reply, err := response.Metadata()
	if err != nil {
		return nil, fault.Unreadable(err)
	}
	topics, err := reply.Topics()
	if err != nil || topics.Len() != 1 {
		return nil, fault.Unreadable(err)
	}
	topic := topics.At(0)
	if topic.HasError() {
		remote, err := topic.Error()
		if err != nil {
			return nil, fault.Unreadable(err)
		}
		return nil, frame.ReadError(remote)
	}
	id, err := topic.Id()
	if err != nil {
		return nil, fault.Unreadable(err)
	}
	state := &Topic{
		Name: name, IDHi: id.Hi(), IDLo: id.Lo(), MapVersion: topic.MapVersion(),
		BatchBytesMax: int(topic.BatchBytesMax()), Durability: topic.Durability(),
	}
	partitions, err := topic.Partitions()
	if err != nil || partitions.Len() == 0 {
		return nil, fault.Unreadable(err)
	}
	state.Partitions = make([]Partition, partitions.Len())
	state.byHash = make([]int, partitions.Len())
	for i := range state.Partitions {
		p := partitions.At(i)
		if int(p.Index()) != i {
			return nil, fault.Unreadable(fmt.Errorf("partition %d at place %d", p.Index(), i))
		}
		state.Partitions[i] = Partition{HashFrom: p.HashFrom(), Epoch: p.Epoch(), Leader: p.Leader()}
		state.byHash[i] = i
	}
	sort.SliceStable(state.byHash, func(a, b int) bool {
		return state.Partitions[state.byHash[a]].HashFrom < state.Partitions[state.byHash[b]].HashFrom
	})
	return state, nil
}
