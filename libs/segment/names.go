package segment

import (
	"fmt"
	"strconv"

	"github.com/seedqueue/sq/libs/partition"
)

// Part says what a file of a segment holds.
type Part uint8

// The parts of a segment.
const (
	LogPart       Part = iota + 1 // frames only
	IndexPart                     // sparse index by offset and append time; derived
	SnapshotPart                  // the seal's digest and the state of the partition at the segment's end; derived
	CompactedPart                 // frames that take the log part's place once the log says so
)

// The suffixes of the parts, and of a file that is not finished.
const (
	logSuffix       = ".log"
	indexSuffix     = ".idx"
	snapshotSuffix  = ".snap"
	compactedSuffix = ".compacted" // no TempSuffix: it may be the only file with these bytes
	// TempSuffix ends the name of a file that a crash may leave half written; it is removed on sight.
	TempSuffix = ".tmp"
)

// baseDigits is the width of the base offset in a name: every u64 fits, and names sort as offsets do.
const baseDigits = 20

// Name gives the file name of a part: the base offset in 20 digits and the part's suffix.
func Name(base partition.Offset, part Part) string {
	return fmt.Sprintf("%0*d%s", baseDigits, uint64(base), part.suffix())
}

func (p Part) suffix() string {
	switch p {
	case LogPart:
		return logSuffix
	case IndexPart:
		return indexSuffix
	case CompactedPart:
		return compactedSuffix
	default:
		return snapshotSuffix
	}
}

// ParseName is the other way round; ok is false for every name that Name does not give.
func ParseName(name string) (base partition.Offset, part Part, ok bool) {
	if len(name) < baseDigits {
		return 0, 0, false
	}
	n, err := strconv.ParseUint(name[:baseDigits], 10, 64)
	if err != nil {
		return 0, 0, false
	}
	switch name[baseDigits:] {
	case logSuffix:
		part = LogPart
	case indexSuffix:
		part = IndexPart
	case snapshotSuffix:
		part = SnapshotPart
	case compactedSuffix:
		part = CompactedPart
	default:
		return 0, 0, false
	}
	return partition.Offset(n), part, true
}
