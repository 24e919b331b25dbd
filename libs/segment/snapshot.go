package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/vfs"
	"github.com/seedqueue/sq/proto/batch"
)

// The layout of a snapshot file; docs/formats/segment.md has the table.
const (
	snapshotMagic       = 0x53535153 // "SQSS"
	snapshotVersion     = 1
	snapshotHeaderBytes = 80
	// MaxStateBytes bounds the state in a snapshot.
	MaxStateBytes = 64 << 20
)

// ErrSnapshot is wrapped by every error about the bytes of a snapshot.
var ErrSnapshot = errors.New("segment snapshot is not valid")

// Snapshot says that a segment was sealed, and what the partition's state was at its end. It exists only when the Seal is committed.
type Snapshot struct {
	Base, End partition.Offset // of the segment
	Size      int64            // of its log part
	SHA256    [32]byte         // of its log part
	State     []byte           // opaque here
}

// AppendTo encodes the snapshot behind dst.
func (s *Snapshot) AppendTo(dst []byte) ([]byte, error) {
	if len(s.State) > MaxStateBytes {
		return dst, fmt.Errorf("encode snapshot: state of %d bytes, the limit is %d", len(s.State), MaxStateBytes)
	}
	le := binary.LittleEndian
	from := len(dst)
	dst = le.AppendUint32(dst, snapshotMagic)
	dst = le.AppendUint16(dst, snapshotVersion)
	dst = le.AppendUint16(dst, 0)
	dst = le.AppendUint64(dst, uint64(s.Base))
	dst = le.AppendUint64(dst, uint64(s.End))
	dst = le.AppendUint64(dst, uint64(s.Size))
	dst = append(dst, s.SHA256[:]...)
	dst = le.AppendUint32(dst, uint32(len(s.State)))
	dst = le.AppendUint32(dst, crc32c(s.State))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, crc32c(dst[from:]))
	return append(dst, s.State...), nil
}

// Write puts the snapshot into its file, durably.
func (s *Snapshot) Write(fsys vfs.FS, dir string) error {
	p, err := s.AppendTo(nil)
	if err == nil {
		err = diskError(fmt.Sprintf("write snapshot of segment %d", s.Base), writeFile(fsys, dir+"/"+Name(s.Base, SnapshotPart), p, true))
	}
	return err
}

// ParseSnapshot decodes a whole snapshot. Its State aliases p.
func ParseSnapshot(p []byte) (Snapshot, error) {
	s, err := parseSnapshotHeader(p)
	if err != nil {
		return Snapshot{}, err
	}
	le := binary.LittleEndian
	s.State = p[snapshotHeaderBytes:]
	if n := le.Uint32(p[64:]); uint64(n) != uint64(len(s.State)) {
		return Snapshot{}, fmt.Errorf("%w: %d of %d bytes of state", ErrSnapshot, len(s.State), n)
	}
	if got, want := crc32c(s.State), le.Uint32(p[68:]); got != want {
		return Snapshot{}, fmt.Errorf("%w: checksum of the state is %#08x, says %#08x", ErrSnapshot, got, want)
	}
	return s, nil
}

// parseSnapshotHeader decodes all but the state.
func parseSnapshotHeader(p []byte) (Snapshot, error) {
	if len(p) < snapshotHeaderBytes {
		return Snapshot{}, fmt.Errorf("%w: %d bytes", ErrSnapshot, len(p))
	}
	le := binary.LittleEndian
	if m, v := le.Uint32(p), le.Uint16(p[4:]); m != snapshotMagic || v != snapshotVersion {
		return Snapshot{}, fmt.Errorf("%w: magic %#x, version %d", ErrSnapshot, m, v)
	}
	if got, want := crc32c(p[:snapshotHeaderBytes-4]), le.Uint32(p[snapshotHeaderBytes-4:]); got != want {
		return Snapshot{}, fmt.Errorf("%w: checksum of the header is %#08x, says %#08x", ErrSnapshot, got, want)
	}
	s := Snapshot{
		Base:   partition.Offset(le.Uint64(p[8:])),
		End:    partition.Offset(le.Uint64(p[16:])),
		Size:   int64(le.Uint64(p[24:])),
		SHA256: [32]byte(p[32:64]),
	}
	if s.End <= s.Base || s.End > batch.MaxOffset || s.Size <= 0 || le.Uint16(p[6:]) != 0 || le.Uint32(p[72:]) != 0 {
		return Snapshot{}, fmt.Errorf("%w: segment [%d, %d) of %d bytes", ErrSnapshot, s.Base, s.End, s.Size)
	}
	return s, nil
}

// LoadSnapshot reads a snapshot file.
func LoadSnapshot(fsys vfs.FS, name string) (Snapshot, error) {
	p, err := readFile(fsys, name, snapshotHeaderBytes+MaxStateBytes)
	if err != nil {
		return Snapshot{}, err
	}
	return ParseSnapshot(p)
}

// LoadSnapshotHeader reads all of a snapshot file but the state.
func LoadSnapshotHeader(fsys vfs.FS, name string) (Snapshot, error) {
	file, err := fsys.Open(name, 0)
	if err != nil {
		return Snapshot{}, err
	}
	defer file.Close()
	p := make([]byte, snapshotHeaderBytes)
	n, err := file.ReadAt(p, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return Snapshot{}, err
	}
	return parseSnapshotHeader(p[:n])
}
