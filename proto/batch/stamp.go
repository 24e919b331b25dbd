package batch

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// Stamps are the words that the partition's leader sets.
type Stamps struct {
	SegmentBase, BaseOffset, Epoch  uint64
	AppendTime                      int64 // microseconds since 1970
	Chain, CommitHint, PartitionTag uint64
}

// Stamp sets the stamp words of a message in place and renews the header CRC. The message must have passed ParseHeader; its body is not
// touched and may even be missing.
func Stamp(msg []byte, s Stamps) {
	le := binary.LittleEndian
	p := msg[:HeaderBytes]
	le.PutUint64(p[atSegmentBase:], s.SegmentBase)
	le.PutUint64(p[atBaseOffset:], s.BaseOffset)
	le.PutUint64(p[atEpoch:], s.Epoch)
	le.PutUint64(p[atAppendTime:], uint64(s.AppendTime))
	le.PutUint64(p[atChain:], s.Chain)
	le.PutUint64(p[atCommitHint:], s.CommitHint)
	le.PutUint64(p[atPartitionTag:], s.PartitionTag)
	le.PutUint32(p[atHeaderCRC:], crc32c(p[:atHeaderCRC]))
}

// NextChain gives the chain word of the batch that follows the one with this header: xxhash64, seed 0, of the HeaderBytes bytes, which
// hold that batch's own chain word. The first batch of a partition has chain 0. header may be the whole message.
func NextChain(header []byte) uint64 { return xxhash.Sum64(header[:HeaderBytes]) }

// Renumber sets the producer's session words of an unstamped message in place and renews the header CRC: a producer that begins a new
// session keeps the body. The message must be one that Builder made.
func Renumber(msg []byte, producerID, baseSequence uint64) {
	le := binary.LittleEndian
	p := msg[:HeaderBytes]
	le.PutUint64(p[atProducerID:], producerID)
	le.PutUint64(p[atBaseSequence:], baseSequence)
	le.PutUint32(p[atHeaderCRC:], crc32c(p[:atHeaderCRC]))
}
