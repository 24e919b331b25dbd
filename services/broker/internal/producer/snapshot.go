package producer

import (
	"fmt"
	"maps"
	"slices"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// Fill writes the committed state into a snapshot. Equal tables write equal bytes.
func (t *Table) Fill(out batchcapnp.Snapshot) error {
	ids := slices.Sorted(maps.Keys(t.sessions))
	producers, err := out.NewProducers(int32(len(ids)))
	if err != nil {
		return fmt.Errorf("fill producers: %w", err)
	}
	for i, id := range ids {
		if err := t.sessions[id].fill(id, producers.At(i)); err != nil {
			return fmt.Errorf("fill producer %d: %w", id, err)
		}
	}
	var live []key
	for _, k := range t.order[t.gone:] {
		if t.keys[k.id] == k.sent {
			live = append(live, k)
		}
	}
	keys, err := out.NewDedupeKeys(int32(len(live)))
	if err != nil {
		return fmt.Errorf("fill dedupe keys: %w", err)
	}
	for i, k := range live {
		e := keys.At(i)
		e.SetHi(k.id.Hi)
		e.SetLo(k.id.Lo)
		e.SetBaseOffset(uint64(k.sent.base))
		e.SetCount(k.sent.count)
		e.SetBodyCrc(k.sent.crc)
		e.SetAppendTime(k.time)
	}
	return nil
}

func (s *session) fill(id uint64, out batchcapnp.Snapshot_Producer) error {
	out.SetId(id)
	out.SetNextSequence(s.next)
	out.SetLastAppendTime(s.time)
	batches, err := out.NewBatches(int32(s.n))
	if err != nil {
		return err
	}
	for i, b := range s.batches[:s.n] {
		e := batches.At(i)
		e.SetBaseSequence(b.first)
		e.SetCount(b.count)
		e.SetBodyCrc(b.crc)
		e.SetBaseOffset(uint64(b.base))
	}
	return nil
}

// Load makes a table of what a snapshot holds.
func Load(in batchcapnp.Snapshot) (*Table, error) {
	t := New()
	producers, err := in.Producers()
	if err != nil {
		return nil, fmt.Errorf("read producers: %w", err)
	}
	if n := producers.Len(); n > 4*SessionsMax {
		return nil, fmt.Errorf("read producers: %d of them", n)
	}
	for i := range producers.Len() {
		p := producers.At(i)
		s, err := loadSession(p)
		if err != nil {
			return nil, fmt.Errorf("read producer %d: %w", p.Id(), err)
		}
		t.sessions[p.Id()] = s
	}
	keys, err := in.DedupeKeys()
	if err != nil {
		return nil, fmt.Errorf("read dedupe keys: %w", err)
	}
	if n := keys.Len(); n > KeysMax {
		return nil, fmt.Errorf("read dedupe keys: %d of them", n)
	}
	for i := range keys.Len() {
		e := keys.At(i)
		k := key{
			id: batch.Key128{Hi: e.Hi(), Lo: e.Lo()}, time: e.AppendTime(),
			sent: sent{base: partition.Offset(e.BaseOffset()), count: e.Count(), crc: e.BodyCrc()},
		}
		t.keys[k.id] = k.sent
		t.order = append(t.order, k)
	}
	return t, nil
}

func loadSession(p batchcapnp.Snapshot_Producer) (*session, error) {
	s := &session{next: p.NextSequence(), time: p.LastAppendTime()}
	batches, err := p.Batches()
	if err != nil {
		return nil, err
	}
	if batches.Len() > remembered {
		return nil, fmt.Errorf("%d remembered batches, at most %d", batches.Len(), remembered)
	}
	for i := range batches.Len() {
		e := batches.At(i)
		s.batches[i] = sent{first: e.BaseSequence(), count: e.Count(), crc: e.BodyCrc(), base: partition.Offset(e.BaseOffset())}
	}
	s.n = batches.Len()
	return s, nil
}

// FillExpire makes a control batch forget sessions.
func FillExpire(c batchcapnp.Control, ids []uint64) error {
	out, err := c.NewProducerExpire()
	if err != nil {
		return fmt.Errorf("fill producer expiry: %w", err)
	}
	list, err := out.NewProducerIds(int32(len(ids)))
	if err != nil {
		return fmt.Errorf("fill producer expiry: %w", err)
	}
	for i, id := range ids {
		list.Set(i, id)
	}
	return nil
}
