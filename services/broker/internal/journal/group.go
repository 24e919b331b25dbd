package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
)

// The layout of a group; docs/formats/journal.md has the tables.
const (
	groupMagic       = 0x31475153 // "SQG1"
	groupHeaderBytes = 48
	entryBytes       = 88
)

var errGroup = errors.New("journal group is not valid")

// Redo is what a ring holds of one replica's log.
type Redo struct {
	Replica partition.UUID
	segment.Redo
	// Group is the sequence of the group that it came in.
	Group uint64
	// Lost says that the bytes cannot be read any more. That they were durable once is certain all the same.
	Lost bool

	sum uint32 // CRC32C of the bytes
	at  int64  // where they are in the ring
}

// group is what one write and sync of the ring made durable.
type group struct {
	sequence uint64
	length   int64  // of the whole, a multiple of ringBlock
	own      []Redo // in the order of their bytes, which follow the header
	// previous repeats what the group before held, so that damage to that one's header loses nothing; empty for the first one of a use.
	previous     []Redo
	previousData int64 // where the bytes of those begin
}

func tablesBytes(own, previous int) int64 { return groupHeaderBytes + int64(own+previous)*entryBytes }

// groupLength gives the room that a group takes.
func groupLength(own, previous int, data int64) int64 {
	return (tablesBytes(own, previous) + data + ringBlock - 1) / ringBlock * ringBlock
}

// put encodes the header at the beginning of p.
func (g *group) put(p []byte, id uint64) {
	le := binary.LittleEndian
	size := tablesBytes(len(g.own), len(g.previous))
	dst := p[:0:size]
	dst = le.AppendUint32(dst, groupMagic)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint64(dst, g.sequence)
	dst = le.AppendUint64(dst, uint64(g.length))
	dst = le.AppendUint32(dst, uint32(len(g.own)))
	dst = le.AppendUint32(dst, uint32(len(g.previous)))
	dst = le.AppendUint64(dst, uint64(g.previousData))
	dst = le.AppendUint64(dst, 0)
	for _, entries := range [][]Redo{g.own, g.previous} {
		for i := range entries {
			dst = entries[i].appendEntry(dst)
		}
	}
	le.PutUint32(dst[4:], checksum(id, dst[8:]))
}

func (r *Redo) appendEntry(dst []byte) []byte {
	le := binary.LittleEndian
	dst = append(dst, r.Replica[:]...)
	for _, word := range [...]uint64{
		r.Generation, uint64(r.Base), uint64(r.Offset), uint64(r.End), uint64(r.Position), r.Chain, r.Next,
	} {
		dst = le.AppendUint64(dst, word)
	}
	dst = le.AppendUint64(dst, uint64(r.Length))
	dst = le.AppendUint32(dst, r.sum)
	return le.AppendUint32(dst, 0)
}

// groupHeaderSize tells how long the header is whose first groupHeaderBytes are p.
func groupHeaderSize(p []byte) (int64, error) {
	le := binary.LittleEndian
	if len(p) < groupHeaderBytes || le.Uint32(p) != groupMagic {
		return 0, fmt.Errorf("%w: no magic", errGroup)
	}
	own, previous := le.Uint32(p[24:]), le.Uint32(p[28:])
	if own > MaxGroupEntries || previous > MaxGroupEntries {
		return 0, fmt.Errorf("%w: %d and %d entries", errGroup, own, previous)
	}
	return tablesBytes(int(own), int(previous)), nil
}

// parseGroup reads a whole header, of a group at a position of a ring of size bytes.
func parseGroup(p []byte, id uint64, position, size int64) (group, error) {
	le := binary.LittleEndian
	n, err := groupHeaderSize(p)
	if err != nil {
		return group{}, err
	}
	if n > int64(len(p)) {
		return group{}, fmt.Errorf("%w: %d bytes of %d", errGroup, len(p), n)
	}
	if got, want := checksum(id, p[8:n]), le.Uint32(p[4:]); got != want {
		return group{}, fmt.Errorf("%w: checksum is %#08x, says %#08x", errGroup, got, want)
	}
	g := group{sequence: le.Uint64(p[8:]), length: int64(le.Uint64(p[16:])), previousData: int64(le.Uint64(p[32:]))}
	own, previous := int(le.Uint32(p[24:])), int(le.Uint32(p[28:]))
	rest := p[groupHeaderBytes:]
	if g.own, err = parseEntries(rest, own, g.sequence, position+n, size); err != nil {
		return group{}, err
	}
	if g.previous, err = parseEntries(rest[own*entryBytes:], previous, g.sequence-1, g.previousData, size); err != nil {
		return group{}, err
	}
	data := int64(0)
	for i := range g.own {
		data += g.own[i].Length
	}
	if g.sequence == 0 || g.length != groupLength(own, previous, data) || g.length > size-position || le.Uint64(p[40:]) != 0 {
		return group{}, fmt.Errorf("%w: group %d of %d bytes at %d", errGroup, g.sequence, g.length, position)
	}
	return g, nil
}

// parseEntries reads entries whose bytes lie one behind the other from position at on.
func parseEntries(p []byte, n int, sequence uint64, at, size int64) ([]Redo, error) {
	le := binary.LittleEndian
	out := make([]Redo, n)
	for i := range out {
		e := p[i*entryBytes:]
		word := func(k int) uint64 { return le.Uint64(e[16+8*k:]) }
		r := &out[i]
		r.Replica, r.Group, r.at = partition.UUID(e[:16]), sequence, at
		r.Redo = segment.Redo{
			Generation: word(0), Base: partition.Offset(word(1)), Offset: partition.Offset(word(2)), End: partition.Offset(word(3)),
			Position: int64(word(4)), Chain: word(5), Next: word(6), Length: int64(word(7)),
		}
		r.sum = le.Uint32(e[80:])
		if r.Length <= 0 || r.Length > MaxGroupBytes || r.Position < 0 || r.Position > 1<<62 || r.Offset < r.Base || r.End <= r.Offset ||
			at < 0 || at > size-r.Length || le.Uint32(e[84:]) != 0 {
			return nil, fmt.Errorf("%w: entry %d of group %d: %+v", errGroup, i, sequence, r.Redo)
		}
		at += r.Length
	}
	return out, nil
}

// sumOf is the checksum of an entry's bytes.
func sumOf(p []byte) uint32 { return crc32.Checksum(p, crc32.MakeTable(crc32.Castagnoli)) }

// EntryBytes is what an entry takes in a group beside its bytes; the group behind repeats it.
const EntryBytes = entryBytes

// GroupOverhead is what a group takes beside its entries when it repeats so many of the one before.
func GroupOverhead(repeated int) int64 { return tablesBytes(0, repeated) + ringBlock }
