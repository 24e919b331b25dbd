package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/seedqueue/sq/libs/partition"
)

// The layout of a file; docs/formats/journal.md has the tables.
const (
	magic         = 0x314a5153 // "SQJ1"
	formatVersion = 1
	headerBytes   = 64
	frameBytes    = 48 // of a frame before its payload
	maxFrameBytes = frameBytes + maxFaults*rangeBytes
)

var errHeader = errors.New("journal header is not valid")

// header opens a file. The number is in the file's name too, and goes into every checksum: bytes of another file are never taken for own.
type header struct {
	number     uint64
	first      uint64 // sequence of the first record
	checkpoint uint64 // how many records in front are the live state, durable before the file got its name
}

func (h header) append(dst []byte) []byte {
	le := binary.LittleEndian
	from := len(dst)
	dst = le.AppendUint32(dst, magic)
	dst = le.AppendUint16(dst, formatVersion)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint64(dst, h.number)
	dst = le.AppendUint64(dst, h.first)
	dst = le.AppendUint64(dst, h.checkpoint)
	dst = append(dst, make([]byte, headerBytes-4-(len(dst)-from))...)
	return le.AppendUint32(dst, checksum(h.number, dst[from:]))
}

func parseHeader(p []byte, number uint64) (header, error) {
	le := binary.LittleEndian
	if len(p) < headerBytes {
		return header{}, fmt.Errorf("%w: %d bytes", errHeader, len(p))
	}
	if m, v := le.Uint32(p), le.Uint16(p[4:]); m != magic || v != formatVersion {
		return header{}, fmt.Errorf("%w: magic %#x, version %d", errHeader, m, v)
	}
	if got, want := checksum(number, p[:headerBytes-4]), le.Uint32(p[headerBytes-4:]); got != want {
		return header{}, fmt.Errorf("%w: checksum is %#08x, says %#08x", errHeader, got, want)
	}
	h := header{number: le.Uint64(p[8:]), first: le.Uint64(p[16:]), checkpoint: le.Uint64(p[24:])}
	if h.number != number {
		return header{}, fmt.Errorf("%w: number %d in file %d", errHeader, h.number, number)
	}
	return h, nil
}

// frame is a record in a file.
type frame struct {
	Record
	sequence uint64
	durable  uint64 // every record with a lower sequence was durable before this one was written
}

func appendFrame(dst []byte, number uint64, f frame) []byte {
	le := binary.LittleEndian
	from := len(dst)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, uint32(frameBytes+len(f.payload)))
	dst = le.AppendUint64(dst, f.sequence)
	dst = le.AppendUint64(dst, f.durable)
	dst = le.AppendUint16(dst, uint16(f.kind))
	dst = append(dst, 0, 0, 0, 0, 0, 0)
	dst = append(dst, f.replica[:]...)
	dst = append(dst, f.payload...)
	le.PutUint32(dst[from:], checksum(number, dst[from+4:]))
	return dst
}

// parseFrame reads the frame at the beginning of p; size is what it takes. The payload aliases p.
func parseFrame(p []byte, number uint64) (f frame, size int, err error) {
	le := binary.LittleEndian
	if len(p) < frameBytes {
		return frame{}, 0, fmt.Errorf("%w: %d bytes", errRecord, len(p))
	}
	n := le.Uint32(p[4:])
	if n < frameBytes || n > maxFrameBytes || n%8 != 0 || uint64(n) > uint64(len(p)) {
		return frame{}, 0, fmt.Errorf("%w: length %d", errRecord, n)
	}
	size = int(n)
	if got, want := checksum(number, p[4:size]), le.Uint32(p); got != want {
		return frame{}, 0, fmt.Errorf("%w: checksum is %#08x, says %#08x", errRecord, got, want)
	}
	if p[26]|p[27]|p[28]|p[29]|p[30]|p[31] != 0 {
		return frame{}, 0, fmt.Errorf("%w: a reserved byte is set", errRecord)
	}
	f = frame{
		Record:   Record{Kind(le.Uint16(p[24:])), partition.UUID(p[32:48]), p[frameBytes:size:size]},
		sequence: le.Uint64(p[8:]),
		durable:  le.Uint64(p[16:]),
	}
	if f.durable > f.sequence {
		return frame{}, 0, fmt.Errorf("%w: record %d says that record %d is durable", errRecord, f.sequence, f.durable-1)
	}
	return f, size, f.check()
}

// checksum is CRC32C over the file's number and the bytes.
func checksum(number uint64, p []byte) uint32 {
	var seed [8]byte
	binary.LittleEndian.PutUint64(seed[:], number)
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Checksum(seed[:], table), table, p)
}
