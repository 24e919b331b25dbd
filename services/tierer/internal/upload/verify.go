package upload

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/services/tierer/internal/leader"
)

// proof takes the bytes of a segment's log part in order, and then says whether they are what the leader told of them.
type proof struct {
	want   leader.Sealed
	tag    uint64
	digest hash.Hash
	blocks segment.Blocks
	seen   int64 // bytes
}

func newProof(id partition.ID, want leader.Sealed) *proof {
	hi, lo := id.Topic.Halves()
	return &proof{want: want, tag: batch.PartitionTag(hi, lo, uint32(id.Index)), digest: sha256.New()}
}

// Write takes the next bytes. It never fails.
func (p *proof) Write(b []byte) (int, error) {
	p.seen += int64(len(b))
	_, _ = p.digest.Write(b) // never fails
	_, _ = p.blocks.Write(b) // never fails
	return len(b), nil
}

// check reads the log part again, batch by batch, and gives its index, which must be the one that the leader keeps of it.
func (p *proof) check(log io.ReaderAt, leaders []byte) (*segment.Index, error) {
	if sum := [sha256.Size]byte(p.digest.Sum(nil)); p.seen != p.want.Size || sum != p.want.SHA256 {
		return nil, p.wrong("%d bytes with digest %x, the seal says %d bytes, %x", p.seen, sum[:4], p.want.Size, p.want.SHA256[:4])
	}
	index := &segment.Index{Summary: segment.Summary{Base: p.want.Base, End: p.want.Base, Tag: p.tag}}
	var scanner segment.Scanner
	scanner.Reset(log, p.seen, p.want.Base, p.tag, segment.Place{Offset: p.want.Base, Unchained: true}, 0)
	for scanner.Next() {
		h := scanner.Header()
		if h.Epoch < uint64(index.Epoch) || (index.Size > 0 && h.AppendTime < index.LastAppendTime) {
			return nil, p.wrong("batch at offset %d: epoch %d at %d, behind epoch %d at %d",
				h.BaseOffset, h.Epoch, h.AppendTime, index.Epoch, index.LastAppendTime)
		}
		index.Add(h, scanner.Place().Chain)
	}
	switch err := scanner.Err(); {
	case err != nil:
		return nil, p.wrong("at byte %d: %w", index.Size, err)
	case index.End != p.want.End || index.Epoch != p.want.Epoch:
		return nil, p.wrong("it ends at %d in epoch %d, the leader says %d in epoch %d", index.End, index.Epoch, p.want.End, p.want.Epoch)
	case index.FirstAppendTime != p.want.FirstAppendTime || index.LastAppendTime != p.want.LastAppendTime:
		return nil, p.wrong("its append times are %d to %d, the leader says %d to %d",
			index.FirstAppendTime, index.LastAppendTime, p.want.FirstAppendTime, p.want.LastAppendTime)
	case !bytes.Equal(index.AppendTo(nil), leaders):
		return nil, p.wrong("the leader's index of %d bytes is not its index", len(leaders))
	}
	return index, nil
}

func (p *proof) wrong(format string, args ...any) error {
	return fault.Errorf(fault.Corrupt, "verify segment [%d, %d): %w", p.want.Base, p.want.End, fmt.Errorf(format, args...))
}
