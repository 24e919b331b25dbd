package sealed

import (
	"fmt"
	"maps"
	"slices"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// Fill writes the table into a snapshot. Equal tables write equal bytes.
func (t *Table) Fill(out batchcapnp.Snapshot) error {
	out.SetLogStart(uint64(t.logStart))
	out.SetTierEnd(uint64(t.tierEnd))
	tier, err := out.NewTier(int32(len(t.tiered)))
	if err != nil {
		return fmt.Errorf("fill tier table: %w", err)
	}
	for i, s := range t.tiered {
		if err := FillSegment(tier.At(i), s); err != nil {
			return fmt.Errorf("fill tier table: %w", err)
		}
	}
	seals, err := out.NewSealed(int32(len(t.seals)))
	if err != nil {
		return fmt.Errorf("fill seals: %w", err)
	}
	for i, s := range t.seals {
		if err := FillSeal(seals.At(i), s); err != nil {
			return fmt.Errorf("fill seals: %w", err)
		}
	}
	drops, err := out.NewDropped(int32(len(t.drops)))
	if err != nil {
		return fmt.Errorf("fill drops: %w", err)
	}
	for i, d := range t.drops {
		drops.At(i).SetNotBefore(d.NotBefore)
		if err := drops.At(i).SetKey(d.Key); err != nil {
			return fmt.Errorf("fill drops: %w", err)
		}
	}
	keys := slices.Sorted(maps.Keys(t.collected))
	collected, err := out.NewCollected(int32(len(keys)))
	if err != nil {
		return fmt.Errorf("fill collected keys: %w", err)
	}
	for i, k := range keys {
		if err := collected.Set(i, k); err != nil {
			return fmt.Errorf("fill collected keys: %w", err)
		}
	}
	return nil
}

// Load makes a table of what a snapshot holds. sealedEnd is the snapshot's end if nothing there is newer: the segment before it is sealed
// by a record behind it.
func Load(in batchcapnp.Snapshot) (*Table, error) {
	t := &Table{logStart: partition.Offset(in.LogStart()), tierEnd: partition.Offset(in.TierEnd()), version: in.End()}
	t.sealedEnd = t.tierEnd
	tier, err := in.Tier()
	if err != nil {
		return nil, fmt.Errorf("read tier table: %w", err)
	}
	if t.tiered, err = readSegmentList(tier); err != nil {
		return nil, fmt.Errorf("read tier table: %w", err)
	}
	seals, err := in.Sealed()
	if err != nil || seals.Len() > entriesMax {
		return nil, fmt.Errorf("read %d seals: %w", seals.Len(), err)
	}
	for i := range seals.Len() {
		s, err := readSeal(seals.At(i))
		if err != nil {
			return nil, fmt.Errorf("read seals: %w", err)
		}
		t.seals = append(t.seals, s)
		t.sealedEnd = s.End
	}
	drops, err := in.Dropped()
	if err != nil || drops.Len() > entriesMax {
		return nil, fmt.Errorf("read %d drops: %w", drops.Len(), err)
	}
	for i := range drops.Len() {
		key, err := drops.At(i).Key()
		if err != nil {
			return nil, fmt.Errorf("read drops: %w", err)
		}
		t.drops = append(t.drops, drop{Drop{Key: key, NotBefore: drops.At(i).NotBefore()}, t.version})
	}
	keys, err := readTexts(in.Collected())
	if err != nil {
		return nil, fmt.Errorf("read collected keys: %w", err)
	}
	if len(keys) > 0 {
		t.collected = make(map[string]bool, len(keys))
		for _, k := range keys {
			t.collected[k] = true
		}
	}
	return t, nil
}

// FillSegment writes a segment of the tier table.
func FillSegment(out batchcapnp.Control_TierSegment, s Segment) error {
	out.SetBase(uint64(s.Base))
	out.SetEnd(uint64(s.End))
	out.SetEpoch(uint64(s.Epoch))
	out.SetSize(s.Size)
	out.SetObjectSize(s.ObjectSize)
	out.SetFirstAppendTime(s.FirstAppendTime)
	out.SetLastAppendTime(s.LastAppendTime)
	if err := out.SetKey(s.Key); err != nil {
		return err
	}
	return out.SetSha256(s.SHA256[:])
}

// ReadSegment reads a segment of the tier table.
func ReadSegment(in batchcapnp.Control_TierSegment) (Segment, error) {
	s := Segment{
		Base: partition.Offset(in.Base()), End: partition.Offset(in.End()), Epoch: partition.Epoch(in.Epoch()), Size: in.Size(),
		ObjectSize: in.ObjectSize(), FirstAppendTime: in.FirstAppendTime(), LastAppendTime: in.LastAppendTime(),
	}
	sum, err := in.Sha256()
	if err != nil {
		return Segment{}, err
	}
	if s.SHA256, err = digestOf(sum); err != nil {
		return Segment{}, err
	}
	s.Key, err = in.Key()
	return s, err
}

// FillSeal writes a Seal.
func FillSeal(out batchcapnp.Control_Seal, s Seal) error {
	out.SetBase(uint64(s.Base))
	out.SetEnd(uint64(s.End))
	out.SetSize(s.Size)
	return out.SetSha256(s.SHA256[:])
}

// ReadSeal reads the Seal in a control batch of that kind.
func ReadSeal(control batchcapnp.Control) (Seal, error) {
	in, err := control.Seal()
	if err != nil {
		return Seal{}, err
	}
	return readSeal(in)
}

// ReadCompact reads the Compact in a control batch of that kind, as the Seal that the segment has from then on.
func ReadCompact(control batchcapnp.Control) (Seal, error) {
	in, err := control.Compact()
	if err != nil {
		return Seal{}, err
	}
	sum, err := in.Sha256()
	if err != nil {
		return Seal{}, err
	}
	digest, err := digestOf(sum)
	return Seal{Base: partition.Offset(in.Base()), End: partition.Offset(in.End()), Size: in.Size(), SHA256: digest}, err
}

func readSeal(in batchcapnp.Control_Seal) (Seal, error) {
	sum, err := in.Sha256()
	if err != nil {
		return Seal{}, err
	}
	digest, err := digestOf(sum)
	return Seal{Base: partition.Offset(in.Base()), End: partition.Offset(in.End()), Size: in.Size(), SHA256: digest}, err
}

func digestOf(sum []byte) (Digest, error) {
	if len(sum) != len(Digest{}) {
		return Digest{}, fmt.Errorf("digest of %d bytes", len(sum))
	}
	return Digest(sum), nil
}

func readSegments(in batchcapnp.Control_TierCommit) ([]Segment, error) {
	list, err := in.Segments()
	if err != nil {
		return nil, err
	}
	return readSegmentList(list)
}

func readSegmentList(list batchcapnp.Control_TierSegment_List) ([]Segment, error) {
	if list.Len() > entriesMax {
		return nil, fmt.Errorf("%d segments", list.Len())
	}
	var out []Segment
	for i := range list.Len() {
		s, err := ReadSegment(list.At(i))
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func readTexts(list capnp.TextList, err error) ([]string, error) {
	if err != nil {
		return nil, err
	}
	if list.Len() > entriesMax {
		return nil, fmt.Errorf("%d texts", list.Len())
	}
	var out []string
	for i := range list.Len() {
		s, err := list.At(i)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}
