package segment

import (
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/seedqueue/sq/proto/batch"
	"github.com/seedqueue/sq/proto/gen/capnp/batchcapnp"
)

// BlockBytes is the size of the blocks of the log part that the footer has a checksum for; the last block may be shorter.
const BlockBytes = 64 << 10

// maxBlocks bounds the checksums of a footer: those of a 2 GiB segment.
const maxBlocks = 2 << 30 / BlockBytes

// ErrFooter is wrapped by every error about the bytes of a footer.
var ErrFooter = errors.New("segment footer is not valid")

// Footer is the last message of a segment's object in the bucket, behind the log part. The same segment gives the same bytes on every
// replica.
type Footer struct {
	Index     *Index   // its Summary says which segment this is
	SHA256    [32]byte // of the log part, as in the segment's Seal
	Snapshot  []byte   // the partition's state at the segment's end; may be empty
	BlockCRCs []uint32 // CRC32C of each BlockBytes of the log part
}

// AppendTo encodes the footer as a stamped control batch behind dst. It fails if the batch would be larger than batch.MaxBytes.
func (f *Footer) AppendTo(dst []byte) ([]byte, error) {
	x := f.Index
	from := len(dst)
	out, err := batch.BuildControl(dst, func(c batchcapnp.Control) error {
		footer, err := c.NewSegmentFooter()
		if err != nil {
			return err
		}
		footer.SetBase(uint64(x.Base))
		footer.SetEnd(uint64(x.End))
		footer.SetSize(uint64(x.Size))
		footer.SetBlockBytes(BlockBytes)
		crcs, err := footer.NewBlockCrcs(int32(len(f.BlockCRCs)))
		if err != nil {
			return err
		}
		for i, crc := range f.BlockCRCs {
			crcs.Set(i, crc)
		}
		return errors.Join(footer.SetSha256(f.SHA256[:]), footer.SetIndex(x.AppendTo(nil)), footer.SetSnapshot(f.Snapshot))
	})
	if err != nil {
		return dst, fmt.Errorf("build footer of segment %d: %w", x.Base, err)
	}
	batch.Stamp(out[from:], batch.Stamps{
		SegmentBase: uint64(x.Base), BaseOffset: uint64(x.End), Epoch: uint64(x.Epoch), AppendTime: x.LastAppendTime,
		Chain: x.Chain, CommitHint: uint64(x.End), PartitionTag: x.Tag,
	})
	return out, nil
}

// ParseFooter decodes a whole footer message and checks both CRCs and that its parts agree. Its Snapshot aliases msg.
func ParseFooter(msg []byte) (*Footer, error) {
	h, err := batch.ParseHeader(msg)
	if err == nil {
		err = batch.CheckBody(msg)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFooter, err)
	}
	control, err := batch.ReadControl(msg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFooter, err)
	}
	if control.Which() != batchcapnp.Control_Which_segmentFooter {
		return nil, fmt.Errorf("%w: control batch of kind %s", ErrFooter, control.Which())
	}
	wire, err := control.SegmentFooter()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFooter, err)
	}
	f, err := footerOf(wire)
	if err != nil {
		return nil, err
	}
	x := f.Index
	if uint64(x.Base) != wire.Base() || uint64(x.End) != wire.End() || uint64(x.Size) != wire.Size() ||
		h.SegmentBase != wire.Base() || h.BaseOffset != wire.End() || h.Chain != x.Chain || h.PartitionTag != x.Tag {
		return nil, fmt.Errorf("%w: index, footer and header name different segments", ErrFooter)
	}
	return f, nil
}

func footerOf(wire batchcapnp.Control_SegmentFooter) (*Footer, error) {
	sum, err := wire.Sha256()
	if err != nil || len(sum) != 32 {
		return nil, fmt.Errorf("%w: digest of %d bytes", ErrFooter, len(sum))
	}
	rawIndex, err := wire.Index()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFooter, err)
	}
	index, err := ParseIndex(rawIndex)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFooter, err)
	}
	snapshot, err := wire.Snapshot()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFooter, err)
	}
	crcs, err := wire.BlockCrcs()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFooter, err)
	}
	blocks := blockCount(index.Size)
	if wire.BlockBytes() != BlockBytes || int64(crcs.Len()) != blocks || blocks > maxBlocks {
		return nil, fmt.Errorf("%w: %d checksums of blocks of %d bytes", ErrFooter, crcs.Len(), wire.BlockBytes())
	}
	f := &Footer{Index: index, SHA256: [32]byte(sum), Snapshot: snapshot, BlockCRCs: make([]uint32, crcs.Len())}
	for i := range f.BlockCRCs {
		f.BlockCRCs[i] = crcs.At(i)
	}
	return f, nil
}

func blockCount(size int64) int64 { return (size + BlockBytes - 1) / BlockBytes }

// CheckBlock compares block i of the log part, whole, with its checksum.
func (f *Footer) CheckBlock(i int, block []byte) error {
	if i < 0 || i >= len(f.BlockCRCs) {
		return fmt.Errorf("%w: no block %d", ErrFooter, i)
	}
	if want := min(BlockBytes, f.Index.Size-int64(i)*BlockBytes); int64(len(block)) != want {
		return fmt.Errorf("block %d has %d of %d bytes", i, len(block), want)
	}
	if got, want := crc32c(block), f.BlockCRCs[i]; got != want {
		return fmt.Errorf("block %d: checksum is %#08x, footer says %#08x", i, got, want)
	}
	return nil
}

// Blocks makes the block checksums of a log part that is written to it from the beginning.
type Blocks struct {
	done []uint32
	sum  uint32
	n    int // bytes in the current block
}

// Write takes in the next bytes. It never fails.
func (b *Blocks) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		step := min(len(p), BlockBytes-b.n)
		b.sum = crc32.Update(b.sum, crc32.MakeTable(crc32.Castagnoli), p[:step])
		b.n += step
		p = p[step:]
		if b.n == BlockBytes {
			b.done, b.sum, b.n = append(b.done, b.sum), 0, 0
		}
	}
	return total, nil
}

// Sums gives the checksums of all blocks so far, an unfinished last one included.
func (b *Blocks) Sums() []uint32 {
	if b.n == 0 {
		return b.done[:len(b.done):len(b.done)]
	}
	return append(b.done[:len(b.done):len(b.done)], b.sum)
}
