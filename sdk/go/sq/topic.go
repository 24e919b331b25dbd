package sq

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

// TopicInfo is what a cluster says about a topic.
type TopicInfo struct {
	Namespace, Name string
	// ID is the topic's UUID: a topic of the same name made later has another.
	ID string
	// BatchBytesMax bounds a batch.
	BatchBytesMax int
	// Durability is what the topic asks for; an Ack says what was reached.
	Durability Durability
	Partitions []PartitionInfo
}

// PartitionInfo is what a cluster says about a partition.
type PartitionInfo struct {
	Partition int
	// Leader is the broker that leads it, 0 = none at the moment.
	Leader uint64
	Epoch  uint64
}

// Topic asks for a topic.
func (c *Client) Topic(ctx context.Context, topic string) (TopicInfo, error) {
	state, err := c.lookUp(ctx, topic, false)
	if err != nil {
		return TopicInfo{}, err
	}
	return state.info(), nil
}

type topicName struct{ namespace, name string }

func (n topicName) String() string {
	if n.namespace == "default" {
		return n.name
	}
	return n.namespace + "/" + n.name
}

func parseTopic(topic string) (topicName, error) {
	namespace, name, found := strings.Cut(topic, "/")
	if !found {
		namespace, name = "default", topic
	}
	if namespace == "" || name == "" || strings.Contains(name, "/") {
		return topicName{}, invalidf("", "topic %q is not a name or namespace/name", topic)
	}
	return topicName{namespace, name}, nil
}

// topicState is a topic's metadata at one moment. It does not change.
type topicState struct {
	name          topicName
	idHi, idLo    uint64
	mapVersion    uint32
	batchBytesMax int
	durability    Durability
	partitions    []partitionState // by index
	byHash        []int            // partitions in the order of their hash ranges
}

type partitionState struct {
	hashFrom uint64
	epoch    uint64
	leader   uint64
}

func (t *topicState) info() TopicInfo {
	info := TopicInfo{
		Namespace: t.name.namespace, Name: t.name.name, ID: uuid(t.idHi, t.idLo),
		BatchBytesMax: t.batchBytesMax, Durability: t.durability,
	}
	for i, p := range t.partitions {
		info.Partitions = append(info.Partitions, PartitionInfo{Partition: i, Leader: p.leader, Epoch: p.epoch})
	}
	return info
}

func uuid(hi, lo uint64) string {
	var p [16]byte
	binary.BigEndian.PutUint64(p[:8], hi)
	binary.BigEndian.PutUint64(p[8:], lo)
	s := hex.EncodeToString(p[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// ofHash gives the partition that a key's hash belongs to: the last whose range begins at or below it.
func (t *topicState) ofHash(hash uint64) int {
	i := sort.Search(len(t.byHash), func(i int) bool { return t.partitions[t.byHash[i]].hashFrom > hash })
	if i == 0 {
		i = len(t.byHash) // no range begins so low: a map that is not whole; the leader decides
	}
	return t.byHash[i-1]
}

// same tells whether it is the same topic with the same ranges.
func (t *topicState) same(other *topicState) bool {
	return other != nil && t.idHi == other.idHi && t.idLo == other.idLo && t.mapVersion == other.mapVersion && len(t.partitions) == len(other.partitions)
}

// topic gives metadata that may be old; create asks the gateway to make the topic if it is missing.
func (c *Client) topic(ctx context.Context, topic string, create bool) (*topicState, error) {
	name, err := parseTopic(topic)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	state := c.mu.topics[name]
	c.mu.Unlock()
	if state != nil {
		return state, nil
	}
	return c.lookUp(ctx, topic, create)
}

// lookUp asks for metadata, and keeps it.
func (c *Client) lookUp(ctx context.Context, topic string, create bool) (*topicState, error) {
	name, err := parseTopic(topic)
	if err != nil {
		return nil, err
	}
	var state *topicState
	err = c.retry(ctx, c.publish, "look up topic "+topic, func(ctx context.Context, conn *frame.Client) error {
		reply, err := conn.Call(ctx, func(req wirecapnp.Request) error { return fillMetadata(req, name, create) })
		if err != nil {
			return err
		}
		defer reply.Release()
		state, err = readTopic(reply.Response, name)
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		if KindOf(err) == KindNotFound {
			delete(c.mu.topics, name)
		}
		return nil, err
	}
	c.mu.topics[name] = state
	return state, nil
}

func fillMetadata(req wirecapnp.Request, name topicName, create bool) error {
	metadata, err := req.NewMetadata()
	if err != nil {
		return err
	}
	metadata.SetAutoCreate(create)
	topics, err := metadata.NewTopics(1)
	if err != nil {
		return err
	}
	if err := topics.At(0).SetNamespace(name.namespace); err != nil {
		return err
	}
	return topics.At(0).SetName(name.name)
}

// readTopic takes the one topic of an answer apart.
func readTopic(response wirecapnp.Response, name topicName) (*topicState, error) {
	reply, err := response.Metadata()
	if err != nil {
		return nil, unreadable(err)
	}
	topics, err := reply.Topics()
	if err != nil || topics.Len() != 1 {
		return nil, unreadable(err)
	}
	topic := topics.At(0)
	if topic.HasError() {
		remote, err := topic.Error()
		if err != nil {
			return nil, unreadable(err)
		}
		return nil, frame.ReadError(remote)
	}
	id, err := topic.Id()
	if err != nil {
		return nil, unreadable(err)
	}
	state := &topicState{
		name: name, idHi: id.Hi(), idLo: id.Lo(), mapVersion: topic.MapVersion(),
		batchBytesMax: int(topic.BatchBytesMax()), durability: Durability(topic.Durability()),
	}
	partitions, err := topic.Partitions()
	if err != nil || partitions.Len() == 0 {
		return nil, unreadable(err)
	}
	state.partitions = make([]partitionState, partitions.Len())
	state.byHash = make([]int, partitions.Len())
	for i := range state.partitions {
		p := partitions.At(i)
		if int(p.Index()) != i {
			return nil, unreadable(fmt.Errorf("partition %d at place %d", p.Index(), i))
		}
		state.partitions[i] = partitionState{hashFrom: p.HashFrom(), epoch: p.Epoch(), leader: p.Leader()}
		state.byHash[i] = i
	}
	sort.SliceStable(state.byHash, func(a, b int) bool {
		return state.partitions[state.byHash[a]].hashFrom < state.partitions[state.byHash[b]].hashFrom
	})
	return state, nil
}

// unreadable says that an answer breaks the protocol.
func unreadable(err error) *Error {
	if err == nil {
		err = errors.New("something is missing")
	}
	return &Error{Kind: KindCorrupt, Err: fmt.Errorf("answer is unreadable: %w", plain(err))}
}
