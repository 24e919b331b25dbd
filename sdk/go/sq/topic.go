package sq

import (
	"context"
	"encoding/binary"
	"encoding/hex"

	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/sdk/go/internal/gateway"
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
	state, err := c.metadata(ctx, topic)
	if err != nil {
		return TopicInfo{}, err
	}
	info := TopicInfo{
		Namespace: state.Name.Namespace, Name: state.Name.Name, ID: uuid(state.IDHi, state.IDLo),
		BatchBytesMax: state.BatchBytesMax, Durability: Durability(state.Durability),
	}
	for i, p := range state.Partitions {
		info.Partitions = append(info.Partitions, PartitionInfo{Partition: i, Leader: p.Leader, Epoch: p.Epoch})
	}
	return info, nil
}

func uuid(hi, lo uint64) string {
	var p [16]byte
	binary.BigEndian.PutUint64(p[:8], hi)
	binary.BigEndian.PutUint64(p[8:], lo)
	s := hex.EncodeToString(p[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// metadata asks for a topic that must exist.
func (c *Client) metadata(ctx context.Context, topic string) (*gateway.Topic, error) {
	name, err := gateway.ParseName(topic)
	if err != nil {
		return nil, errorOf("look up topic "+topic, err)
	}
	return c.lookUp(ctx, topic, name, false)
}

// lookUp asks for metadata until ctx ends; create asks for the topic to be made if it is missing.
func (c *Client) lookUp(ctx context.Context, topic string, name gateway.Name, create bool) (*gateway.Topic, error) {
	var state *gateway.Topic
	err := c.retry(ctx, c.publish, "look up topic "+topic, func(ctx context.Context, conn *frame.Client) (err error) {
		state, err = gateway.Metadata(ctx, conn, name, create)
		return err
	})
	return state, err
}
