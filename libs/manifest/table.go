package manifest

import (
	"errors"
	"fmt"
	"sort"

	"github.com/seedqueue/sq/libs/partition"
)

// ErrTable is wrapped by every error about what a table holds.
var ErrTable = errors.New("tier table is not valid")

// Segment is a sealed segment that is in the bucket.
type Segment struct {
	Base, End       partition.Offset
	Epoch           partition.Epoch // of the last batch in it
	Size            int64           // bytes of the log part
	ObjectSize      int64           // with the footer
	FirstAppendTime int64           // microseconds since 1970
	LastAppendTime  int64
	SHA256          [32]byte // of the log part
	// Key of the object where it does not follow from the rest, as that of a cluster that was rebuilt from another's bucket; else empty.
	Key string
}

// check refuses what no segment can be.
func (s Segment) check() error {
	if s.Base >= s.End || s.Size <= 0 || s.ObjectSize <= s.Size || s.LastAppendTime < s.FirstAppendTime {
		return fmt.Errorf("%w: segment [%d, %d) of %d bytes, object of %d", ErrTable, s.Base, s.End, s.Size, s.ObjectSize)
	}
	return nil
}

// Table is the tier table of a partition: what of its log the bucket has.
type Table struct {
	Partition partition.ID
	Epoch     partition.Epoch // of the leader that gave it
	Version   uint64          // grows with every change
	LogStart  partition.Offset
	TierEnd   partition.Offset // the bucket has [LogStart, TierEnd)
	Segments  []Segment        // by base, none overlapping; those below the log start may be missing
}

// Check tells what is wrong with a table: [LogStart, TierEnd) must be covered, without overlap, and nothing may lie beyond.
func (t *Table) Check() error {
	covered := partition.Offset(0)
	for _, s := range t.Segments {
		if err := s.check(); err != nil {
			return err
		}
		if s.Base < covered || s.End > t.TierEnd {
			return fmt.Errorf("%w: segment [%d, %d) behind %d, tier end %d", ErrTable, s.Base, s.End, covered, t.TierEnd)
		}
		if hole := max(covered, t.LogStart); hole < s.Base {
			return fmt.Errorf("%w: [%d, %d) is missing", ErrTable, hole, s.Base)
		}
		covered = s.End
	}
	if hole := max(covered, t.LogStart); hole < t.TierEnd {
		return fmt.Errorf("%w: [%d, %d) is missing", ErrTable, hole, t.TierEnd)
	}
	return nil
}

// Find gives the segment that has an offset; false where none has.
func (t *Table) Find(offset partition.Offset) (Segment, bool) {
	i := sort.Search(len(t.Segments), func(i int) bool { return t.Segments[i].End > offset })
	if i == len(t.Segments) || t.Segments[i].Base > offset {
		return Segment{}, false
	}
	return t.Segments[i], true
}

// FindTime gives the first segment above the log start that has a batch appended at or after a time (microseconds since 1970); false where
// none has.
func (t *Table) FindTime(micros int64) (Segment, bool) {
	i := sort.Search(len(t.Segments), func(i int) bool {
		return t.Segments[i].End > t.LogStart && t.Segments[i].LastAppendTime >= micros
	})
	if i == len(t.Segments) {
		return Segment{}, false
	}
	return t.Segments[i], true
}
