package journal

import (
	"fmt"

	"github.com/seedqueue/sq/libs/fault"
	"github.com/seedqueue/sq/libs/partition"
	"github.com/seedqueue/sq/libs/segment"
	"github.com/seedqueue/sq/libs/vfs"
)

// Decoded is what a record says, for people. Only the fields of its kind are set.
type Decoded struct {
	ID     partition.ID     // created
	Origin Origin           // created
	Epoch  partition.Epoch  // promise
	Mark   segment.Mark     // mark
	HW     partition.Offset // hw
	Faults []segment.Range  // faults
	Ring   RingState        // ring
	Ragged bool             // ragged
	Acked  partition.Offset // acked
}

// Decode takes a record apart.
func (r Record) Decode() Decoded {
	switch r.kind {
	case KindCreated:
		return Decoded{
			ID:     partition.ID{Topic: partition.UUID(r.payload[:16]), Index: partition.Index(r.word(2))},
			Origin: Origin{partition.Offset(r.word(3)), r.word(4)},
		}
	case KindPromise:
		return Decoded{Epoch: partition.Epoch(r.word(0))}
	case KindMark:
		return Decoded{Mark: r.mark()}
	case KindHW:
		return Decoded{HW: partition.Offset(r.word(0))}
	case KindFaults:
		return Decoded{Faults: r.faults()}
	case KindRing:
		return Decoded{Ring: RingState{}.merge(r)}
	case KindRagged:
		return Decoded{Ragged: r.word(0) == 1}
	case KindAcked:
		return Decoded{Acked: partition.Offset(r.word(0))}
	case KindDeleted:
	}
	return Decoded{}
}

// IsFile tells whether a name is that of a journal file.
func IsFile(name string) bool {
	_, ok := parseName(name)
	return ok
}

// InspectFile is Inspect of one file by its name, whether it is the newest or not.
func InspectFile(fsys vfs.FS, dir, name string, each func(position int64, sequence uint64, r Record)) (Reading, error) {
	number, ok := parseName(name)
	if !ok {
		return Reading{}, fault.Errorf(fault.Invalid, "inspect journal: %s is no name of a journal file", name)
	}
	p, err := readFile(fsys, dir+"/"+name)
	if err != nil {
		return Reading{}, fault.Errorf(fault.Corrupt, "read journal %d: %w", number, err)
	}
	reading, err := replay(p, number, each)
	return reading, fault.Wrap(fmt.Sprintf("replay journal %d", number), err)
}
