package manifest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/tiercapnp"
)

// Limits of a manifest.
const (
	// MaxBytes bounds an object.
	MaxBytes = 64 << 20
	// MaxPartitions bounds the tables in one.
	MaxPartitions = 10_000
	// SegmentBytes is about what a segment takes in one: an exporter plans by it.
	SegmentBytes = 112

	magic   = 0x314d5153 // "SQM1"
	version = 1
	// crcAt is where the checksum lies: behind the framing, the root pointer and 24 bytes of the data section.
	crcAt    = 8 + 8 + 24
	minBytes = crcAt + 8
)

// ErrManifest is wrapped by every error about the bytes of a manifest.
var ErrManifest = errors.New("manifest is not valid")

// Manifest is the tier tables of some partitions as of one moment.
type Manifest struct {
	Cluster  partition.UUID
	Sequence uint64
	Created  int64 // microseconds since 1970, the tierer's clock
	Tierer   string
	Tables   []Table
}

// Encode gives the object's bytes. It fails where the manifest is larger than its limits or a table is wrong.
func (m *Manifest) Encode() ([]byte, error) {
	if len(m.Tables) > MaxPartitions {
		return nil, fmt.Errorf("encode manifest: %d tables, %d at most", len(m.Tables), MaxPartitions)
	}
	size := 1 << 10
	for i := range m.Tables {
		if err := m.Tables[i].Check(); err != nil {
			return nil, fmt.Errorf("encode manifest: %s: %w", m.Tables[i].Partition, err)
		}
		size += 128 + SegmentBytes*len(m.Tables[i].Segments)
		for _, s := range m.Tables[i].Segments {
			size += (len(s.Key) + 8) &^ 7
		}
	}
	if size > MaxBytes {
		return nil, fmt.Errorf("encode manifest: about %d bytes, %d at most", size, MaxBytes)
	}
	msg, segment, err := capnp.NewMessage(capnp.SingleSegment(make([]byte, 0, size)))
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	defer msg.Release()
	root, err := tiercapnp.NewRootManifest(segment)
	if err == nil {
		err = m.fill(root)
	}
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	data, err := msg.Marshal()
	if err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	binary.LittleEndian.PutUint32(data[crcAt:], checksum(data))
	return data, nil
}

func (m *Manifest) fill(out tiercapnp.Manifest) error {
	out.SetMagic(magic)
	out.SetFormatVersion(version)
	out.SetSequence(m.Sequence)
	out.SetCreated(m.Created)
	if err := out.SetTierer(m.Tierer); err != nil {
		return err
	}
	if err := setUUID(out.NewCluster, m.Cluster); err != nil {
		return err
	}
	list, err := out.NewPartitions(int32(len(m.Tables))) //nolint:gosec // at most MaxPartitions.
	if err != nil {
		return err
	}
	for i := range m.Tables {
		if err := m.Tables[i].fill(list.At(i)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) fill(out tiercapnp.Manifest_Partition) error {
	out.SetPartition(uint32(t.Partition.Index))
	out.SetEpoch(uint64(t.Epoch))
	out.SetTableVersion(t.Version)
	out.SetLogStart(uint64(t.LogStart))
	out.SetTierEnd(uint64(t.TierEnd))
	if err := setUUID(out.NewTopic, t.Partition.Topic); err != nil {
		return err
	}
	list, err := out.NewSegments(int32(len(t.Segments))) //nolint:gosec // bounded by MaxBytes.
	if err != nil {
		return err
	}
	for i, s := range t.Segments {
		to := list.At(i)
		to.SetBase(uint64(s.Base))
		to.SetEnd(uint64(s.End))
		to.SetEpoch(uint64(s.Epoch))
		to.SetSize(uint64(s.Size))
		to.SetObjectSize(uint64(s.ObjectSize))
		to.SetFirstAppendTime(s.FirstAppendTime)
		to.SetLastAppendTime(s.LastAppendTime)
		if err := to.SetSha256(s.SHA256[:]); err != nil {
			return err
		}
		if s.Key == "" {
			continue
		}
		if err := to.SetKey(s.Key); err != nil {
			return err
		}
	}
	return nil
}

func setUUID(place func() (batchcapnp.Uuid, error), id partition.UUID) error {
	out, err := place()
	if err != nil {
		return err
	}
	hi, lo := id.Halves()
	out.SetHi(hi)
	out.SetLo(lo)
	return nil
}

// checksum is the CRC32C of a message as if its checksum were zero.
func checksum(data []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, data[:crcAt])
	sum = crc32.Update(sum, table, []byte{0, 0, 0, 0})
	return crc32.Update(sum, table, data[crcAt+4:])
}
