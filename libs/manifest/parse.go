package manifest

import (
	"encoding/binary"
	"fmt"
	"math"

	"capnproto.org/go/capnp/v3"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
	"github.com/seedqueue/sq/proto/gen/capnp/tiercapnp"
)

// rootPointer is that of a struct that comes next, with four data words and three pointers: what go-capnp writes for a Manifest.
const rootPointer = 4<<32 | 3<<48

// Parse reads an object's bytes and checks everything that needs no other object.
func Parse(data []byte) (*Manifest, error) {
	if len(data) < minBytes || len(data) > MaxBytes || len(data)%8 != 0 {
		return nil, fmt.Errorf("%w: %d bytes", ErrManifest, len(data))
	}
	le := binary.LittleEndian
	if segments, words := le.Uint32(data), le.Uint32(data[4:]); segments != 0 || int64(words)*8 != int64(len(data)-8) {
		return nil, fmt.Errorf("%w: not one segment of %d bytes", ErrManifest, len(data)-8)
	}
	if le.Uint32(data[16:]) != magic {
		return nil, fmt.Errorf("%w: magic %#x", ErrManifest, le.Uint32(data[16:]))
	}
	if v := le.Uint16(data[20:]); v != version {
		return nil, fmt.Errorf("%w: format version %d, this build reads %d", ErrManifest, v, version)
	}
	if le.Uint64(data[8:]) != rootPointer {
		return nil, fmt.Errorf("%w: root pointer %#x", ErrManifest, le.Uint64(data[8:]))
	}
	if got, want := checksum(data), le.Uint32(data[crcAt:]); got != want {
		return nil, fmt.Errorf("%w: checksum is %#08x, says %#08x", ErrManifest, got, want)
	}
	msg := &capnp.Message{Arena: capnp.SingleSegment(data[8:]), DepthLimit: 8, TraverseLimit: 4 * uint64(len(data))}
	root, err := tiercapnp.ReadRootManifest(msg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	m, err := read(root)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, nil
}

func read(in tiercapnp.Manifest) (*Manifest, error) {
	if in.Flags() != 0 {
		return nil, fmt.Errorf("flags %#x", in.Flags())
	}
	m := &Manifest{Sequence: in.Sequence(), Created: in.Created()}
	var err error
	if m.Cluster, err = readUUID(in.Cluster()); err != nil {
		return nil, err
	}
	if m.Tierer, err = in.Tierer(); err != nil {
		return nil, err
	}
	list, err := in.Partitions()
	if err != nil {
		return nil, err
	}
	if list.Len() > MaxPartitions {
		return nil, fmt.Errorf("%d tables", list.Len())
	}
	for i := range list.Len() {
		table, err := readTable(list.At(i))
		if err != nil {
			return nil, fmt.Errorf("table %d: %w", i, err)
		}
		m.Tables = append(m.Tables, table)
	}
	return m, nil
}

func readTable(in tiercapnp.Manifest_Partition) (Table, error) {
	topic, err := readUUID(in.Topic())
	if err != nil {
		return Table{}, err
	}
	t := Table{
		Partition: partition.ID{Topic: topic, Index: partition.Index(in.Partition())},
		Epoch:     partition.Epoch(in.Epoch()), Version: in.TableVersion(),
		LogStart: partition.Offset(in.LogStart()), TierEnd: partition.Offset(in.TierEnd()),
	}
	list, err := in.Segments()
	if err != nil {
		return Table{}, err
	}
	for i := range list.Len() { // the elements lie in the message, each SegmentBytes of it: the list's length is bounded by it
		s, err := readSegment(list.At(i))
		if err != nil {
			return Table{}, fmt.Errorf("segment %d: %w", i, err)
		}
		t.Segments = append(t.Segments, s)
	}
	return t, t.Check()
}

func readSegment(in tiercapnp.Manifest_Segment) (Segment, error) {
	s := Segment{
		Base: partition.Offset(in.Base()), End: partition.Offset(in.End()), Epoch: partition.Epoch(in.Epoch()),
		FirstAppendTime: in.FirstAppendTime(), LastAppendTime: in.LastAppendTime(),
	}
	sum, err := in.Sha256()
	if err != nil {
		return Segment{}, err
	}
	if s.Size, s.ObjectSize, s.SHA256, err = Sizes(in.Size(), in.ObjectSize(), sum); err != nil {
		return Segment{}, err
	}
	s.Key, err = in.Key()
	return s, err
}

// Sizes converts the sizes and the digest of a segment as they are on the wire.
func Sizes(size, objectSize uint64, sum []byte) (int64, int64, [32]byte, error) {
	if len(sum) != 32 || size > math.MaxInt64 || objectSize > math.MaxInt64 {
		return 0, 0, [32]byte{}, fmt.Errorf("%w: %d bytes, object of %d, digest of %d", ErrTable, size, objectSize, len(sum))
	}
	return int64(size), int64(objectSize), [32]byte(sum), nil
}

func readUUID(in batchcapnp.Uuid, err error) (partition.UUID, error) {
	if err != nil {
		return partition.UUID{}, err
	}
	return partition.UUIDOf(in.Hi(), in.Lo()), nil
}
