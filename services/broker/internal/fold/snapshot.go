package fold

import (
	"fmt"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/services/broker/internal/producer"
	"github.com/seedqueue/sq/services/broker/internal/quorum"
	"github.com/seedqueue/sq/services/broker/internal/sealed"
)

const (
	snapshotVersion = 1
	// snapshotBytesMax bounds a snapshot that is read.
	snapshotBytesMax = 256 << 20
	// epochsMax bounds its epochs.
	epochsMax = 1 << 20
)

func encode(s *State) ([]byte, error) {
	m, seg := capnp.NewSingleSegmentMessage(nil)
	defer m.Release()
	out, err := batchcapnp.NewRootSnapshot(seg)
	if err != nil {
		return nil, err
	}
	out.SetFormatVersion(snapshotVersion)
	out.SetEnd(uint64(s.end))
	out.SetChain(s.chain)
	out.SetLastAppendTime(s.time)
	epochs, err := out.NewEpochs(int32(len(s.epochs)))
	if err != nil {
		return nil, err
	}
	for i, e := range s.epochs {
		epochs.At(i).SetEpoch(uint64(e.Epoch))
		epochs.At(i).SetStart(uint64(e.Start))
	}
	if err := s.Producers.Fill(out); err != nil {
		return nil, err
	}
	if err := s.Tier.Fill(out); err != nil {
		return nil, err
	}
	return m.Marshal()
}

// Decode makes the state that a snapshot holds. Errors are fault.Corrupt, or fault.UnsupportedVersion for a later format.
func Decode(data []byte) (*State, error) {
	if len(data) > snapshotBytesMax {
		return nil, fault.Errorf(fault.Corrupt, "decode snapshot: %d bytes, at most %d", len(data), snapshotBytesMax)
	}
	m, err := capnp.Unmarshal(data)
	if err != nil {
		return nil, fault.Errorf(fault.Corrupt, "decode snapshot: %w", err)
	}
	m.ResetReadLimit(uint64(8*len(data)) + 1<<20)
	in, err := batchcapnp.ReadRootSnapshot(m)
	if err != nil {
		return nil, fault.Errorf(fault.Corrupt, "decode snapshot: %w", err)
	}
	if v := in.FormatVersion(); v != snapshotVersion {
		if v > snapshotVersion {
			return nil, fault.Errorf(fault.UnsupportedVersion, "decode snapshot: format version %d, this build reads %d", v, snapshotVersion)
		}
		return nil, fault.Errorf(fault.Corrupt, "decode snapshot: format version %d", v)
	}
	s, err := load(in)
	if err != nil {
		return nil, fault.Errorf(fault.Corrupt, "decode snapshot: %w", err)
	}
	return s, nil
}

func load(in batchcapnp.Snapshot) (*State, error) {
	s := &State{end: partition.Offset(in.End()), chain: in.Chain(), time: in.LastAppendTime()}
	epochs, err := in.Epochs()
	if err != nil {
		return nil, fmt.Errorf("read epochs: %w", err)
	}
	if epochs.Len() > epochsMax {
		return nil, fmt.Errorf("read epochs: %d of them", epochs.Len())
	}
	for i := range epochs.Len() {
		e := quorum.EpochStart{Epoch: partition.Epoch(epochs.At(i).Epoch()), Start: partition.Offset(epochs.At(i).Start())}
		if n := len(s.epochs); n > 0 && (s.epochs[n-1].Epoch >= e.Epoch || s.epochs[n-1].Start > e.Start) {
			return nil, fmt.Errorf("read epochs: %d at %d follows %d at %d", e.Epoch, e.Start, s.epochs[n-1].Epoch, s.epochs[n-1].Start)
		}
		s.epochs = append(s.epochs, e)
	}
	if s.Producers, err = producer.Load(in); err != nil {
		return nil, err
	}
	if s.Tier, err = sealed.Load(in); err != nil {
		return nil, err
	}
	return s, nil
}
