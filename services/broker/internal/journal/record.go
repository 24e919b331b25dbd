package journal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
)

// Kind says what a record changes. The numbers are part of the format.
type Kind uint16

// The kinds.
const (
	KindCreated Kind = iota + 1
	KindDeleted
	KindPromise
	KindMark
	KindHW
	KindFaults
	KindRing
	KindRagged
	KindAcked
)

// String gives the kind's name in lower case.
func (k Kind) String() string {
	switch k {
	case KindCreated:
		return "created"
	case KindDeleted:
		return "deleted"
	case KindPromise:
		return "promise"
	case KindMark:
		return "mark"
	case KindHW:
		return "hw"
	case KindFaults:
		return "faults"
	case KindRing:
		return "ring"
	case KindRagged:
		return "ragged"
	case KindAcked:
		return "acked"
	default:
		return fmt.Sprintf("kind(%d)", uint16(k))
	}
}

// Sizes of the payloads.
const (
	createdBytes = 40
	markBytes    = 40
	rangeBytes   = 40
	ringBytes    = 24
)

// errRecord is wrapped by errors about a record whose checksum is right.
var errRecord = errors.New("journal record breaks the format")

// Record changes one thing in the state. The functions below make one.
type Record struct {
	kind    Kind
	replica partition.UUID
	payload []byte // a multiple of 8 bytes
}

// Kind says what it changes.
func (r Record) Kind() Kind { return r.kind }

// Replica says whose state it changes.
func (r Record) Replica() partition.UUID { return r.replica }

// Created makes a replica known, with nothing promised. For a known one it changes nothing.
func Created(replica partition.UUID, id partition.ID, origin Origin) Record {
	le := binary.LittleEndian
	p := make([]byte, 0, createdBytes)
	p = append(p, id.Topic[:]...)
	p = le.AppendUint64(p, uint64(id.Index))
	p = le.AppendUint64(p, uint64(origin.Offset))
	p = le.AppendUint64(p, origin.Chain)
	return Record{KindCreated, replica, p}
}

// Deleted forgets a replica.
func Deleted(replica partition.UUID) Record { return Record{kind: KindDeleted, replica: replica} }

// Promise raises the promised epoch; a lower one than known changes nothing.
func Promise(replica partition.UUID, epoch partition.Epoch) Record {
	return Record{KindPromise, replica, binary.LittleEndian.AppendUint64(nil, uint64(epoch))}
}

// Mark replaces the durable mark; one of a lower generation, or of a lower offset in the same, changes nothing.
func Mark(replica partition.UUID, mark segment.Mark) Record {
	le := binary.LittleEndian
	p := make([]byte, 0, markBytes)
	p = le.AppendUint64(p, mark.Generation)
	p = le.AppendUint64(p, uint64(mark.Base))
	p = le.AppendUint64(p, uint64(mark.Offset))
	p = le.AppendUint64(p, uint64(mark.Position))
	p = le.AppendUint64(p, mark.Chain)
	return Record{KindMark, replica, p}
}

// HW raises the high watermark; a lower one than known changes nothing.
func HW(replica partition.UUID, hw partition.Offset) Record {
	return Record{KindHW, replica, binary.LittleEndian.AppendUint64(nil, uint64(hw))}
}

// Faults replaces the list of corrupt ranges. Beyond maxFaults the rest is joined into the last one.
func Faults(replica partition.UUID, ranges []segment.Range) Record {
	le := binary.LittleEndian
	p := make([]byte, 0, min(len(ranges), maxFaults)*rangeBytes)
	for i, r := range ranges {
		if i == maxFaults-1 {
			last := ranges[len(ranges)-1]
			r.To, r.Limit = last.To, last.Limit
		}
		p = le.AppendUint64(p, uint64(r.From))
		p = le.AppendUint64(p, uint64(r.To))
		p = le.AppendUint64(p, uint64(r.Base))
		p = le.AppendUint64(p, uint64(r.Position))
		p = le.AppendUint64(p, uint64(r.Limit))
		if i == maxFaults-1 {
			break
		}
	}
	return Record{KindFaults, replica, p}
}

// Ragged says whether the log's end may have lost what was acknowledged: a tail that nothing proved was cut, and no leader has caught the
// replica up since.
func Ragged(replica partition.UUID, ragged bool) Record {
	word := uint64(0)
	if ragged {
		word = 1
	}
	return Record{KindRagged, replica, binary.LittleEndian.AppendUint64(nil, word)}
}

// Acked says where the high watermark was, of which some may not be on disk: what a power cut takes of it is told by it. The last one counts.
func Acked(replica partition.UUID, hw partition.Offset) Record {
	return Record{KindAcked, replica, binary.LittleEndian.AppendUint64(nil, uint64(hw))}
}

// ringRecord says what is to be found in the ring: the groups of this identity from tail on, if it is used. It is about no replica.
func ringRecord(r RingState) Record {
	le := binary.LittleEndian
	p := le.AppendUint64(make([]byte, 0, ringBytes), r.ID)
	p = le.AppendUint64(p, r.Tail)
	used := uint64(0)
	if r.Used {
		used = 1
	}
	return Record{kind: KindRing, payload: le.AppendUint64(p, used)}
}

// check tells whether the payload is one that the functions above make.
func (r Record) check() error {
	n := len(r.payload)
	ok := false
	switch r.kind {
	case KindCreated:
		ok = n == createdBytes && binary.LittleEndian.Uint64(r.payload[16:]) <= 1<<32-1
	case KindDeleted:
		ok = n == 0
	case KindPromise, KindHW, KindAcked:
		ok = n == 8
	case KindRagged:
		ok = n == 8 && r.word(0) <= 1
	case KindMark:
		ok = n == markBytes
	case KindFaults:
		ok = n%rangeBytes == 0 && n/rangeBytes <= maxFaults
	case KindRing:
		ok = n == ringBytes && r.word(2) <= 1 && r.replica == partition.UUID{}
	}
	if !ok {
		return fmt.Errorf("%w: %s with a payload of %d bytes", errRecord, r.kind, n)
	}
	return nil
}

func (r Record) word(i int) uint64 { return binary.LittleEndian.Uint64(r.payload[8*i:]) }

func (r Record) mark() segment.Mark {
	return segment.Mark{
		Generation: r.word(0), Base: partition.Offset(r.word(1)), Offset: partition.Offset(r.word(2)),
		Position: int64(r.word(3)), Chain: r.word(4),
	}
}

func (r Record) faults() []segment.Range {
	var out []segment.Range
	for i := 0; 8*i < len(r.payload); i += rangeBytes / 8 {
		out = append(out, segment.Range{
			From: partition.Offset(r.word(i)), To: partition.Offset(r.word(i + 1)), Base: partition.Offset(r.word(i + 2)),
			Position: int64(r.word(i + 3)), Limit: int64(r.word(i + 4)),
		})
	}
	return out
}
