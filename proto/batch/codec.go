package batch

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codec says how a packed body is compressed.
type Codec uint16

// The codecs, numbered as in batch.capnp.
const (
	None Codec = iota
	S2         // s2 block
	LZ4        // lz4 block, without a frame
	Zstd       // one zstd frame with its content size, no dictionary
)

// String gives the name as in batch.capnp.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case S2:
		return "s2"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	default:
		return fmt.Sprintf("codec(%d)", uint16(c))
	}
}

// ParseCodec is the other way round of String.
func ParseCodec(name string) (Codec, error) {
	for c := None; c <= Zstd; c++ {
		if c.String() == name {
			return c, nil
		}
	}
	return None, fmt.Errorf("unknown codec %q: use none, s2, lz4 or zstd", name)
}

// deflater compresses whole segments; it keeps what the codecs allocate.
type deflater struct {
	lz4  lz4.Compressor
	zstd *zstd.Encoder
}

// bound gives how many bytes a compressed segment can take at most.
func (d *deflater) bound(c Codec, size int) int {
	switch c {
	case S2:
		return s2.MaxEncodedLen(size)
	case LZ4:
		return lz4.CompressBlockBound(size)
	default:
		// zstd stores what does not compress in blocks of 128 KiB with 3 bytes before each; 32 bytes of frame are generous.
		return size + size>>10 + 32
	}
}

// compress writes src compressed to dst, which has bound bytes of room and is not grown. 0 = it does not compress.
func (d *deflater) compress(c Codec, dst, src []byte) (int, error) {
	switch c {
	case S2:
		return len(s2.Encode(dst, src)), nil
	case LZ4:
		n, err := d.lz4.CompressBlock(src, dst)
		if err != nil {
			return 0, fmt.Errorf("compress with lz4: %w", err)
		}
		return n, nil
	case Zstd:
		if d.zstd == nil {
			var err error
			d.zstd, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
				zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true), zstd.WithLowerEncoderMem(true))
			if err != nil {
				return 0, fmt.Errorf("make zstd encoder: %w", err)
			}
		}
		out := d.zstd.EncodeAll(src, dst[:0])
		if len(out) > len(dst) {
			return 0, nil
		}
		return len(out), nil
	default:
		return 0, fmt.Errorf("compress: unknown codec %d", uint16(c))
	}
}

// inflater decompresses whole segments; it keeps what the codecs allocate.
type inflater struct {
	zstd *zstd.Decoder
}

// inflate fills dst, whose length is the header's raw size, exactly. Whatever src claims, nothing larger than dst is made.
func (f *inflater) inflate(c Codec, dst, src []byte) error {
	n, err := f.into(c, dst, src)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrInflate, c, err)
	}
	if n != len(dst) {
		return fmt.Errorf("%w: %s: %d bytes, header says %d", ErrInflate, c, n, len(dst))
	}
	return nil
}

func (f *inflater) into(c Codec, dst, src []byte) (int, error) {
	switch c {
	case S2:
		// Decode allocates what the block claims, so the claim is compared first.
		if n, err := s2.DecodedLen(src); err != nil || n != len(dst) {
			return n, err
		}
		out, err := s2.Decode(dst, src)
		return len(out), err
	case LZ4:
		return lz4.UncompressBlock(src, dst)
	case Zstd:
		if err := checkZstdFrame(src, uint64(len(dst))); err != nil {
			return 0, err
		}
		if f.zstd == nil {
			var err error
			f.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
				zstd.WithDecoderMaxMemory(MaxRawBytes), zstd.WithDecoderMaxWindow(MaxRawBytes))
			if err != nil {
				return 0, err
			}
		}
		out, err := f.zstd.DecodeAll(src, dst[:0])
		return len(out), err
	default:
		return 0, fmt.Errorf("unknown codec %d", uint16(c))
	}
}

// checkZstdFrame walks the block headers: exactly one frame, which says its content size and needs no dictionary.
func checkZstdFrame(src []byte, size uint64) error {
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return err
	}
	switch {
	case h.Skippable:
		return errors.New("skippable frame")
	case h.DictionaryID != 0:
		return errors.New("frame needs a dictionary")
	case !h.HasFCS || h.FrameContentSize != size:
		return fmt.Errorf("content size %d, header says %d", h.FrameContentSize, size)
	}
	at := h.HeaderSize
	for last := false; !last; {
		if len(src)-at < 3 {
			return errors.New("frame is cut short")
		}
		word := uint32(src[at]) | uint32(src[at+1])<<8 | uint32(src[at+2])<<16
		last = word&1 != 0
		length := int(word >> 3)
		if kind := word >> 1 & 3; kind == 1 { // one byte repeated
			length = 1
		}
		at += 3 + length
		if at > len(src) {
			return errors.New("frame is cut short")
		}
	}
	if h.HasCheckSum {
		at += 4
	}
	if at != len(src) {
		return fmt.Errorf("%d bytes, the frame has %d", len(src), at)
	}
	return nil
}
