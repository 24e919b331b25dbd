package inspect

import (
	"errors"
	"fmt"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// control takes a control batch apart: its kind, and what it says.
func control(msg []byte) (string, fields, error) {
	c, err := batch.ReadControl(msg)
	if err != nil {
		return "", nil, err //nolint:wrapcheck // says what is wrong with the batch.
	}
	var f fields
	switch c.Which() {
	case batchcapnp.Control_Which_epochStart:
		f, err = epochStart(c)
	case batchcapnp.Control_Which_seal:
		in, inErr := c.Seal()
		sum, sumErr := in.Sha256()
		f, err = fields{{"base", in.Base()}, {"end", in.End()}, {"size", in.Size()}, {"sha256", fmt.Sprintf("%x", sum)}}, errors.Join(inErr, sumErr)
	case batchcapnp.Control_Which_compact:
		in, inErr := c.Compact()
		sum, sumErr := in.Sha256()
		f, err = fields{{"base", in.Base()}, {"end", in.End()}, {"size", in.Size()}, {"sha256", fmt.Sprintf("%x", sum)}}, errors.Join(inErr, sumErr)
	case batchcapnp.Control_Which_tierCommit:
		in, inErr := c.TierCommit()
		segments, listErr := in.Segments()
		if err = errors.Join(inErr, listErr); err == nil {
			f, err = tierSegments(segments)
		}
	case batchcapnp.Control_Which_tierDrop:
		in, inErr := c.TierDrop()
		keys, keysErr := texts(in.Keys())
		f, err = fields{{"keys", keys}, {"notBefore", timeText(in.NotBefore())}}, errors.Join(inErr, keysErr)
	case batchcapnp.Control_Which_tierCollect:
		in, inErr := c.TierCollect()
		keys, keysErr := texts(in.Keys())
		f, err = fields{{"keys", keys}}, errors.Join(inErr, keysErr)
	case batchcapnp.Control_Which_trimTo:
		in, inErr := c.TrimTo()
		f, err = fields{{"offset", in.Offset()}}, inErr
	case batchcapnp.Control_Which_producerExpire:
		in, inErr := c.ProducerExpire()
		ids, idsErr := in.ProducerIds()
		list := make([]uint64, 0, ids.Len())
		for i := range ids.Len() {
			list = append(list, ids.At(i))
		}
		f, err = fields{{"producers", list}}, errors.Join(inErr, idsErr)
	case batchcapnp.Control_Which_segmentFooter:
		in, inErr := c.SegmentFooter()
		sum, sumErr := in.Sha256()
		f, err = fields{{"base", in.Base()}, {"end", in.End()}, {"size", in.Size()}, {"sha256", fmt.Sprintf("%x", sum)}}, errors.Join(inErr, sumErr)
	case batchcapnp.Control_Which_groupDelta, batchcapnp.Control_Which_partitionClosed, batchcapnp.Control_Which_cut:
	}
	return c.Which().String(), f, err
}

func epochStart(c batchcapnp.Control) (fields, error) {
	in, err := c.EpochStart()
	if err != nil {
		return nil, err //nolint:wrapcheck // says what is wrong with the batch.
	}
	leader, leaderErr := in.Leader()
	members, membersErr := in.Members()
	base, baseErr := in.BaseMembers()
	if err := errors.Join(leaderErr, membersErr, baseErr); err != nil {
		return nil, err
	}
	return fields{
		{"epoch", in.Epoch()},
		{"leader", memberText(leader)},
		{"incarnation", in.Incarnation()},
		{"members", memberTexts(members)},
		{"baseEpoch", in.BaseEpoch()},
		{"baseMembers", memberTexts(base)},
		{"startOffset", in.StartOffset()},
		{"lossy", in.Lossy()},
	}, nil
}

// memberText is broker/replica.
func memberText(m batchcapnp.Member) string {
	replica, err := m.Replica()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d/%s", m.Broker(), partition.UUIDOf(replica.Hi(), replica.Lo()))
}

func memberTexts(list capnp.StructList[batchcapnp.Member]) []string {
	out := make([]string, 0, list.Len())
	for i := range list.Len() {
		out = append(out, memberText(list.At(i)))
	}
	return out
}

func tierSegments(list capnp.StructList[batchcapnp.Control_TierSegment]) (fields, error) {
	out := make([]fields, 0, list.Len())
	for i := range list.Len() {
		s := list.At(i)
		key, err := s.Key()
		if err != nil {
			return nil, err //nolint:wrapcheck // says what is wrong with the batch.
		}
		out = append(out, fields{{"base", s.Base()}, {"end", s.End()}, {"size", s.Size()}, {"key", key}})
	}
	return fields{{"segments", out}}, nil
}

func texts(list capnp.TextList, err error) ([]string, error) {
	out := make([]string, 0, list.Len())
	for i := 0; err == nil && i < list.Len(); i++ {
		var text string
		text, err = list.At(i)
		out = append(out, text)
	}
	return out, err
}
