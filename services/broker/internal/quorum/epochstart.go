package quorum

import (
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// controlEntry reads the header of a control batch just built.
func controlEntry(msg []byte) (Entry, error) {
	h, err := batch.ParseHeader(msg)
	if err != nil {
		return Entry{}, err
	}
	return Entry{Header: h, Msg: msg}, nil
}

func (s *State) fillEpochStart(c *candidate, control batchcapnp.Control) error {
	start, err := control.NewEpochStart()
	if err != nil {
		return err
	}
	start.SetEpoch(uint64(c.epoch))
	start.SetIncarnation(uint64(s.cfg.Incarnation))
	start.SetBaseEpoch(uint64(c.base.Epoch))
	start.SetStartOffset(uint64(s.log.end))
	start.SetLossy(s.lossy)
	leader, err := start.NewLeader()
	if err != nil {
		return err
	}
	if err := fillMember(leader, s.cfg.Self); err != nil {
		return err
	}
	members, err := start.NewMembers(int32(len(c.members)))
	if err != nil {
		return err
	}
	for i, m := range c.members {
		if err := fillMember(members.At(i), m); err != nil {
			return err
		}
	}
	base, err := start.NewBaseMembers(int32(len(c.base.Members)))
	if err != nil {
		return err
	}
	for i, m := range c.base.Members {
		if err := fillMember(base.At(i), m); err != nil {
			return err
		}
	}
	return nil
}

func fillMember(out batchcapnp.Member, m partition.Member) error {
	out.SetBroker(uint64(m.Broker))
	id, err := out.NewReplica()
	if err != nil {
		return err
	}
	hi, lo := m.Replica.Halves()
	id.SetHi(hi)
	id.SetLo(lo)
	return nil
}
