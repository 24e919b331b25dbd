package batch

import (
	"bytes"
	"encoding/binary"
)

// gapBody is what a message without records has behind its header: a body of records that is a struct without any word, and no routing columns.
func gapBody() []byte {
	body := make([]byte, MinBytes-HeaderBytes)
	binary.LittleEndian.PutUint64(body, emptyStruct)
	return body
}

// emptyStruct points to a struct of no size.
const emptyStruct = 0xfffffffc

// BuildGap appends a stamped message without records to dst: compaction leaves it where no record of [s.BaseOffset, s.BaseOffset + delta] is left.
// It is the smallest message there is, so smaller than any that it takes the place of.
func BuildGap(dst []byte, s Stamps, delta uint32) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, HeaderBytes)...)
	dst = append(dst, gapBody()...)
	h := Header{Flags: FlagRewritten, LastOffsetDelta: delta}
	h.put(dst[from:])
	Stamp(dst[from:], s)
	return dst
}

// checkGap sees that a message without records has no body either.
func checkGap(msg []byte) error {
	if !bytes.Equal(msg[HeaderBytes:], gapBody()) {
		return corrupt("a batch without records has a body")
	}
	return nil
}

// Widen makes a message span the offsets up to BaseOffset + delta, flags it as rewritten and renews the header CRC. The body stays. The
// message must be one of records that has passed ParseHeader, and delta not below its own.
func Widen(msg []byte, delta uint32) {
	le := binary.LittleEndian
	p := msg[:HeaderBytes]
	le.PutUint16(p[atFlags:], le.Uint16(p[atFlags:])|FlagRewritten)
	le.PutUint32(p[atLastOffsetDelta:], delta)
	le.PutUint32(p[atHeaderCRC:], crc32c(p[:atHeaderCRC]))
}

// Stamps gives the words that the leader has set.
func (h Header) Stamps() Stamps {
	return Stamps{
		SegmentBase: h.SegmentBase, BaseOffset: h.BaseOffset, Epoch: h.Epoch, AppendTime: h.AppendTime, Chain: h.Chain,
		CommitHint: h.CommitHint, PartitionTag: h.PartitionTag,
	}
}
