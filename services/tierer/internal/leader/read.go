package leader

import (
	"fmt"

	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/tiercapnp"
)

func readHarvest(in tiercapnp.HarvestReply) ([]Work, error) {
	list, err := in.Partitions()
	if err != nil {
		return nil, unreadable("harvest", err)
	}
	var all []Work
	for i := range list.Len() {
		work, err := readWork(list.At(i))
		if err != nil {
			return nil, unreadable("harvest", err)
		}
		all = append(all, work)
	}
	return all, nil
}

func readWork(in tiercapnp.HarvestReply_Harvest) (Work, error) {
	topic, err := in.Topic()
	if err != nil {
		return Work{}, err
	}
	w := Work{
		Partition: partition.ID{Topic: partition.UUIDOf(topic.Hi(), topic.Lo()), Index: partition.Index(in.Partition())},
		Epoch:     partition.Epoch(in.Epoch()), TierEnd: partition.Offset(in.TierEnd()), ExportedEnd: partition.Offset(in.ExportedEnd()),
		ExportedVersion: in.ExportedVersion(), TableVersion: in.TableVersion(),
	}
	sealed, err := in.Sealed()
	if err != nil {
		return Work{}, err
	}
	for i := range sealed.Len() {
		s, err := readSealed(sealed.At(i))
		if err != nil {
			return Work{}, fmt.Errorf("%s: %w", w.Partition, err)
		}
		if i > 0 && s.Base != w.Sealed[i-1].End {
			return Work{}, fmt.Errorf("%s: segment at %d behind the end %d of the one before", w.Partition, s.Base, w.Sealed[i-1].End)
		}
		w.Sealed = append(w.Sealed, s)
	}
	keys, err := in.Collectable()
	if err != nil {
		return Work{}, err
	}
	for i := range keys.Len() {
		key, err := keys.At(i)
		if err != nil {
			return Work{}, err
		}
		w.Collectable = append(w.Collectable, key)
	}
	return w, nil
}

func readSealed(in tiercapnp.SealedSegment) (Sealed, error) {
	s := Sealed{
		Base: partition.Offset(in.Base()), End: partition.Offset(in.End()), Epoch: partition.Epoch(in.Epoch()),
		FirstAppendTime: in.FirstAppendTime(), LastAppendTime: in.LastAppendTime(),
	}
	sum, err := in.Sha256()
	if err != nil {
		return Sealed{}, err
	}
	if s.Size, _, s.SHA256, err = manifest.Sizes(in.Size(), 0, sum); err != nil {
		return Sealed{}, err
	}
	if s.Base >= s.End || s.Size == 0 {
		return Sealed{}, fmt.Errorf("sealed segment [%d, %d) of %d bytes", s.Base, s.End, s.Size)
	}
	return s, nil
}

func readPart(in tiercapnp.ReadSealedReply, body []byte) (Part, error) {
	part := Part{Body: body}
	var err error
	if part.Size, _, _, err = manifest.Sizes(in.Size(), 0, make([]byte, 32)); err != nil {
		return Part{}, err
	}
	if part.Index, err = in.Index(); err != nil {
		return Part{}, err
	}
	part.Snapshot, err = in.Snapshot()
	return part, err
}

func readTable(in tiercapnp.TableReply) (Table, error) {
	t := Table{
		Epoch: partition.Epoch(in.Epoch()), Version: in.TableVersion(), TierEnd: partition.Offset(in.TierEnd()),
		LogStart: partition.Offset(in.LogStart()), More: in.More(),
	}
	list, err := in.Segments()
	if err != nil {
		return Table{}, unreadable("tier table", err)
	}
	for i := range list.Len() {
		s, err := readSegment(list.At(i))
		if err != nil {
			return Table{}, unreadable("tier table", err)
		}
		t.Segments = append(t.Segments, s)
	}
	return t, nil
}

func readSegment(in batchcapnp.Control_TierSegment) (manifest.Segment, error) {
	s := manifest.Segment{
		Base: partition.Offset(in.Base()), End: partition.Offset(in.End()), Epoch: partition.Epoch(in.Epoch()),
		FirstAppendTime: in.FirstAppendTime(), LastAppendTime: in.LastAppendTime(),
	}
	sum, err := in.Sha256()
	if err != nil {
		return manifest.Segment{}, err
	}
	if s.Size, s.ObjectSize, s.SHA256, err = manifest.Sizes(in.Size(), in.ObjectSize(), sum); err != nil {
		return manifest.Segment{}, err
	}
	s.Key, err = in.Key()
	return s, err
}
