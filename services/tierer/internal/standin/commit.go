package standin

import (
	"slices"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/manifest"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/frame"
	"github.com/seedqueue/sq/proto/gen/capnp/wirecapnp"
)

func (b *Broker) commitTier(request *frame.Request) error {
	in, err := request.Message.CommitTier()
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := b.find(in, err)
	if err != nil {
		return err
	}
	list, err := in.Segments()
	if err != nil {
		return err
	}
	for i := range list.Len() {
		wire := list.At(i)
		sum, err := wire.Sha256()
		if err != nil {
			return err
		}
		s := manifest.Segment{
			Base: partition.Offset(wire.Base()), End: partition.Offset(wire.End()), Epoch: partition.Epoch(wire.Epoch()),
			FirstAppendTime: wire.FirstAppendTime(), LastAppendTime: wire.LastAppendTime(),
		}
		if s.Size, s.ObjectSize, s.SHA256, err = manifest.Sizes(wire.Size(), wire.ObjectSize(), sum); err != nil {
			return err
		}
		if s.Key, err = wire.Key(); err != nil {
			return err
		}
		if slices.Contains(log.Tiered, s) {
			continue
		}
		waiting := log.waiting()
		if s.Base != log.TierEnd || len(waiting) == 0 || waiting[0].SHA256 != s.SHA256 || waiting[0].Size != s.Size {
			return fault.Errorf(fault.Conflict, "segment at %d does not continue the table at %d", s.Base, log.TierEnd)
		}
		log.Tiered = append(log.Tiered, s)
		log.TierEnd = s.End
		log.Version++
	}
	b.signal()
	return request.Reply(func(response wirecapnp.Response) error {
		out, err := response.NewCommitTier()
		if err != nil {
			return err
		}
		out.SetTierEnd(uint64(log.TierEnd))
		out.SetTableVersion(log.Version)
		return nil
	}, nil)
}

func (b *Broker) exported(request *frame.Request) error {
	in, err := request.Message.Exported()
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := b.find(in, err)
	switch {
	case err != nil:
		return err
	case partition.Epoch(in.Epoch()) != log.Epoch:
		return fault.Errorf(fault.StaleEpoch, "of epoch %d", in.Epoch())
	case in.TableVersion() > log.Version:
		return fault.Errorf(fault.Invalid, "of a table that is not there yet")
	case in.TableVersion() >= log.ExportedVersion:
		log.ExportedVersion, log.ExportedEnd = in.TableVersion(), partition.Offset(in.TierEnd())
		log.Sequence = in.ManifestSequence()
	}
	b.signal()
	return request.Reply(func(response wirecapnp.Response) error {
		_, err := response.NewExported()
		return err
	}, nil)
}

func (b *Broker) collected(request *frame.Request) error {
	in, err := request.Message.Collected()
	b.mu.Lock()
	defer b.mu.Unlock()
	log, err := b.find(in, err)
	if err != nil {
		return err
	}
	keys, err := in.Keys()
	if err != nil {
		return err
	}
	for i := range keys.Len() {
		key, err := keys.At(i)
		if err != nil {
			return err
		}
		log.Collected = append(log.Collected, key)
		log.Collectable = slices.DeleteFunc(log.Collectable, func(k string) bool { return k == key })
	}
	b.signal()
	return request.Reply(func(response wirecapnp.Response) error {
		_, err := response.NewCollected()
		return err
	}, nil)
}
