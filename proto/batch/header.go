package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Places of the fixed words, from the start of the message.
const (
	atMagic           = framingBytes + pointerBytes
	atVersion         = atMagic + 4
	atFlags           = atMagic + 6
	atSegmentBase     = atMagic + 8
	atBaseOffset      = atMagic + 16
	atEpoch           = atMagic + 24
	atAppendTime      = atMagic + 32
	atChain           = atMagic + 40
	atCommitHint      = atMagic + 48
	atPartitionTag    = atMagic + 56
	atRecordCount     = atMagic + 64
	atLastOffsetDelta = atMagic + 68
	atFirstTimestamp  = atMagic + 72
	atMaxTimestamp    = atMagic + 80
	atProducerID      = atMagic + 88
	atProducerEpoch   = atMagic + 96
	atCodec           = atMagic + 100
	atKind            = atMagic + 102
	atBaseSequence    = atMagic + 104
	atDedupeKeyHi     = atMagic + 112
	atDedupeKeyLo     = atMagic + 120
	atMapVersion      = atMagic + 128
	atRawSize         = atMagic + 132
	atSchemaID        = atMagic + 136
	atEncryptionKeyID = atMagic + 140
	atBodyCRC         = atMagic + 144
	atReserved        = atMagic + 148 // two u32
	atHeaderCRC       = atMagic + 156
)

// FlagRewritten marks a batch that compaction has rewritten: records may be missing.
const FlagRewritten uint16 = 1 << 0

// Kind says which member of the body union is set.
type Kind uint16

// The members of the body union.
const (
	Records Kind = iota // columns
	Packed              // columns, compressed by Codec
	Control             // what a log says about itself
)

// String gives the name as in batch.capnp.
func (k Kind) String() string {
	switch k {
	case Records:
		return "records"
	case Packed:
		return "packed"
	case Control:
		return "control"
	default:
		return fmt.Sprintf("kind(%d)", uint16(k))
	}
}

// Key128 is the hash of an Idempotency-Key; zero = none.
type Key128 struct{ Hi, Lo uint64 }

// IsZero tells whether there is none.
func (k Key128) IsZero() bool { return k == Key128{} }

// Header has the fixed words of a batch. Times are microseconds since 1970.
type Header struct {
	// Stamp words, by the partition's leader; zero on arrival.
	SegmentBase  uint64 // base offset of the segment; equal to BaseOffset where a new file starts
	BaseOffset   uint64
	Epoch        uint64
	AppendTime   int64
	Chain        uint64 // NextChain of the batch before
	CommitHint   uint64 // the leader's persisted high watermark when it framed this
	PartitionTag uint64

	// Producer words.
	Flags           uint16
	RecordCount     uint32 // 0 in a control batch
	LastOffsetDelta uint32
	FirstTimestamp  int64
	MaxTimestamp    int64
	ProducerID      uint64 // 0 = not idempotent
	BaseSequence    uint64 // of the first record in the session (producer id, partition)
	DedupeKey       Key128
	MapVersion      uint32 // 0 = explicit partition
	RawSize         uint32 // bytes of the columns before compression
	Codec           Codec
	Kind            Kind
	BodyCRC         uint32
	HeaderCRC       uint32
	Size            int // of the whole message
}

// NextOffset gives the offset behind the batch.
func (h Header) NextOffset() uint64 { return h.BaseOffset + uint64(h.LastOffsetDelta) + 1 }

// IsGap tells whether compaction has taken all records away: only the span of offsets is left.
func (h Header) IsGap() bool { return h.RecordCount == 0 && h.Flags&FlagRewritten != 0 }

// IsControl tells whether it is a control batch, which readers of records skip.
func (h Header) IsControl() bool { return h.Kind == Control }

// Unstamped tells whether all stamp words are zero, as they must be when a batch arrives from a producer.
func (h Header) Unstamped() bool {
	return h.SegmentBase|h.BaseOffset|h.Epoch|uint64(h.AppendTime)|h.Chain|h.CommitHint|h.PartitionTag == 0
}

// CheckPublish tells whether a producer may send this: an unstamped, not rewritten batch of records without gaps. What arrives at a
// gateway or a leader and fails here is answered with Invalid.
func (h Header) CheckPublish() error {
	switch {
	case h.Kind == Control:
		return fmt.Errorf("%w: a producer sends no control batch", ErrKind)
	case !h.Unstamped():
		return corrupt("a producer's batch carries stamp words")
	case h.Flags != 0:
		return corrupt("a producer's batch has flags %#x", h.Flags)
	case h.LastOffsetDelta != h.RecordCount-1:
		return corrupt("a producer's batch of %d records spans %d offsets", h.RecordCount, uint64(h.LastOffsetDelta)+1)
	case h.ProducerID == 0 && h.BaseSequence != 0:
		return corrupt("a sequence without a producer id")
	}
	return nil
}

// PeekSize gives the size of the whole message from its first 16 bytes. It compares them with the fixed prefix and the limits.
func PeekSize(prefix []byte) (int, error) {
	if len(prefix) < framingBytes+pointerBytes {
		return 0, fmt.Errorf("%w: %d bytes of the prefix", ErrShort, len(prefix))
	}
	if n := binary.LittleEndian.Uint32(prefix); n != 0 {
		return 0, fmt.Errorf("%w: %d segments", ErrPrefix, uint64(n)+1)
	}
	size := framingBytes + 8*uint64(binary.LittleEndian.Uint32(prefix[4:]))
	if size < MinBytes || size > MaxBytes {
		return 0, fmt.Errorf("%w: size %d is outside [%d, %d]", ErrPrefix, size, MinBytes, MaxBytes)
	}
	if root := binary.LittleEndian.Uint64(prefix[8:]); root != rootPointer {
		return 0, fmt.Errorf("%w: root pointer %#x", ErrPrefix, root)
	}
	return int(size), nil
}

// ParseHeader reads and checks the fixed words: prefix, magic, version, header CRC, and every rule that needs no body. It needs the first
// HeaderBytes bytes and looks at no others.
func ParseHeader(msg []byte) (Header, error) {
	if len(msg) < HeaderBytes {
		return Header{}, fmt.Errorf("%w: %d of %d header bytes", ErrShort, len(msg), HeaderBytes)
	}
	size, err := PeekSize(msg)
	if err != nil {
		return Header{}, err
	}
	p := msg[:HeaderBytes]
	le := binary.LittleEndian
	if m := le.Uint32(p[atMagic:]); m != magic {
		return Header{}, fmt.Errorf("%w: %#x", ErrMagic, m)
	}
	if v := le.Uint16(p[atVersion:]); v != formatVersion {
		return Header{}, fmt.Errorf("%w: %d", ErrVersion, v)
	}
	want := le.Uint32(p[atHeaderCRC:])
	if got := crc32c(p[:atHeaderCRC]); got != want {
		return Header{}, fmt.Errorf("%w: header has %#08x, says %#08x", ErrCRC, got, want)
	}
	h := Header{
		SegmentBase:     le.Uint64(p[atSegmentBase:]),
		BaseOffset:      le.Uint64(p[atBaseOffset:]),
		Epoch:           le.Uint64(p[atEpoch:]),
		AppendTime:      int64(le.Uint64(p[atAppendTime:])),
		Chain:           le.Uint64(p[atChain:]),
		CommitHint:      le.Uint64(p[atCommitHint:]),
		PartitionTag:    le.Uint64(p[atPartitionTag:]),
		Flags:           le.Uint16(p[atFlags:]),
		RecordCount:     le.Uint32(p[atRecordCount:]),
		LastOffsetDelta: le.Uint32(p[atLastOffsetDelta:]),
		FirstTimestamp:  int64(le.Uint64(p[atFirstTimestamp:])),
		MaxTimestamp:    int64(le.Uint64(p[atMaxTimestamp:])),
		ProducerID:      le.Uint64(p[atProducerID:]),
		BaseSequence:    le.Uint64(p[atBaseSequence:]),
		DedupeKey:       Key128{le.Uint64(p[atDedupeKeyHi:]), le.Uint64(p[atDedupeKeyLo:])},
		MapVersion:      le.Uint32(p[atMapVersion:]),
		RawSize:         le.Uint32(p[atRawSize:]),
		Codec:           Codec(le.Uint16(p[atCodec:])),
		Kind:            Kind(le.Uint16(p[atKind:])),
		BodyCRC:         le.Uint32(p[atBodyCRC:]),
		HeaderCRC:       want,
		Size:            size,
	}
	if le.Uint32(p[atProducerEpoch:])|le.Uint32(p[atSchemaID:])|le.Uint32(p[atEncryptionKeyID:])|
		le.Uint32(p[atReserved:])|le.Uint32(p[atReserved+4:]) != 0 {
		return Header{}, corrupt("a reserved word is set")
	}
	if err := h.check(); err != nil {
		return Header{}, err
	}
	return h, nil
}

// check holds the rules among the fixed words.
func (h *Header) check() error {
	switch {
	case h.Flags&^FlagRewritten != 0:
		return corrupt("unknown flags %#x", h.Flags)
	case h.BaseOffset > MaxOffset:
		return corrupt("base offset %d is above %d", h.BaseOffset, uint64(MaxOffset))
	case h.SegmentBase > h.BaseOffset:
		return corrupt("segment base %d is above base offset %d", h.SegmentBase, h.BaseOffset)
	case h.BaseSequence > MaxOffset:
		return corrupt("base sequence %d is above %d", h.BaseSequence, uint64(MaxOffset))
	case !validTimestamp(h.FirstTimestamp), !validTimestamp(h.MaxTimestamp), !validTimestamp(h.AppendTime):
		return corrupt("a timestamp is out of range")
	case h.Kind > Control:
		return corrupt("unknown kind of body %d", uint16(h.Kind))
	case h.Codec > Zstd:
		return corrupt("unknown codec %d", uint16(h.Codec))
	case (h.Kind == Packed) != (h.Codec != None):
		return corrupt("codec %s with a body of kind %s", h.Codec, h.Kind)
	}
	if h.Kind == Control {
		if h.RecordCount|h.LastOffsetDelta|h.RawSize|uint32(h.Flags) != 0 {
			return corrupt("a control batch with records")
		}
		return nil
	}
	if h.IsGap() {
		if h.RawSize != 0 || h.Kind != Records || h.Size != MinBytes {
			return corrupt("a batch without records has %d bytes, raw size %d, a body of kind %s", h.Size, h.RawSize, h.Kind)
		}
		return nil
	}
	switch {
	case h.RecordCount == 0 || h.RecordCount > MaxRecords:
		return corrupt("%d records", h.RecordCount)
	case h.LastOffsetDelta < h.RecordCount-1:
		return corrupt("%d records in %d offsets", h.RecordCount, uint64(h.LastOffsetDelta)+1)
	case h.RawSize < emptyRawBytes || h.RawSize > MaxRawBytes:
		return corrupt("raw size %d is outside [%d, %d]", h.RawSize, emptyRawBytes, MaxRawBytes)
	case h.RecordCount > h.RawSize/4:
		return corrupt("%d records in %d raw bytes", h.RecordCount, h.RawSize)
	case h.FirstTimestamp > h.MaxTimestamp:
		return corrupt("the first timestamp is above the highest")
	case h.Kind == Records && int(h.RawSize) > h.Size-MinBytes+pointerBytes:
		return corrupt("raw size %d of a message of %d bytes", h.RawSize, h.Size)
	}
	return nil
}

// CheckBody compares the body CRC of a whole message. It does not look at the header CRC: ParseHeader does.
func CheckBody(msg []byte) error {
	size, err := PeekSize(msg)
	if err != nil {
		return err
	}
	if len(msg) != size {
		return fmt.Errorf("%w: %d of %d bytes", ErrShort, len(msg), size)
	}
	want := binary.LittleEndian.Uint32(msg[atBodyCRC:])
	if got := crc32c(msg[HeaderBytes:]); got != want {
		return fmt.Errorf("%w: body has %#08x, says %#08x", ErrCRC, got, want)
	}
	return nil
}

// put writes the fixed words of an unstamped message whose other bytes are final, both CRCs included.
func (h *Header) put(msg []byte) {
	le := binary.LittleEndian
	p := msg[:HeaderBytes]
	clear(p)
	le.PutUint32(p[4:], uint32((len(msg)-framingBytes)/8))
	le.PutUint64(p[8:], rootPointer)
	le.PutUint32(p[atMagic:], magic)
	le.PutUint16(p[atVersion:], formatVersion)
	le.PutUint16(p[atFlags:], h.Flags)
	le.PutUint32(p[atRecordCount:], h.RecordCount)
	le.PutUint32(p[atLastOffsetDelta:], h.LastOffsetDelta)
	le.PutUint64(p[atFirstTimestamp:], uint64(h.FirstTimestamp))
	le.PutUint64(p[atMaxTimestamp:], uint64(h.MaxTimestamp))
	le.PutUint64(p[atProducerID:], h.ProducerID)
	le.PutUint16(p[atCodec:], uint16(h.Codec))
	le.PutUint16(p[atKind:], uint16(h.Kind))
	le.PutUint64(p[atBaseSequence:], h.BaseSequence)
	le.PutUint64(p[atDedupeKeyHi:], h.DedupeKey.Hi)
	le.PutUint64(p[atDedupeKeyLo:], h.DedupeKey.Lo)
	le.PutUint32(p[atMapVersion:], h.MapVersion)
	le.PutUint32(p[atRawSize:], h.RawSize)
	le.PutUint32(p[atBodyCRC:], crc32c(msg[HeaderBytes:]))
	le.PutUint32(p[atHeaderCRC:], crc32c(p[:atHeaderCRC]))
}

func validTimestamp(micros int64) bool { return micros >= -MaxTimestamp && micros <= MaxTimestamp }

// crc32c is hardware work; MakeTable gives the same prepared table on every call.
func crc32c(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }
