package compact

import (
	"time"

	"github.com/seedqueue/sq/libs/partition"
)

// Segment is a sealed segment that is not in the bucket.
type Segment struct {
	Base, End partition.Offset
	Size      int64
}

// Past is what earlier passes of this life have done.
type Past struct {
	// Clean is how far the log has been read for its keys.
	Clean partition.Offset
	// From is where the keys did not fit any more; 0 = they did.
	From partition.Offset
	// Tombstone is the append time of the oldest tombstone that waits for its age, microseconds since 1970; 0 = none does.
	Tombstone int64
}

// Plan is one pass.
type Plan struct {
	Learn   []Segment // to read for the keys, oldest first
	Rewrite []Segment // those of them that are below the compaction point
	From    partition.Offset
	// TombstonesBefore: those appended before this may go, microseconds since 1970; 0 = all stay.
	TombstonesBefore int64
}

// Point gives the sealed segments below the compaction point: all but the newest. So the two newest snapshots are at or above it, and a replica
// that has lost one of them never folds a rewritten batch.
func Point(sealed []Segment) []Segment {
	return sealed[:max(0, len(sealed)-1)]
}

// Next decides whether a pass is worth it: when half of what is sealed is new since the last one, when the keys of the last one did not fit, or when
// a tombstone has come of age. sealed are the segments that are sealed and not in the bucket, oldest first; whole tells that nothing older of the
// log is elsewhere, without which a tombstone may shadow a record that compaction cannot reach, and stays.
func (p Past) Next(sealed []Segment, whole bool, tombstoneAge time.Duration, now int64) (Plan, bool) {
	plan := Plan{Learn: sealed, Rewrite: Point(sealed), From: p.From}
	if len(plan.Rewrite) == 0 {
		return Plan{}, false
	}
	if tombstoneAge <= 0 {
		tombstoneAge = TombstoneAgeDefault
	}
	if whole {
		plan.TombstonesBefore = now - tombstoneAge.Microseconds()
	}
	var dirty, clean int64
	for _, s := range sealed {
		if s.End > p.Clean {
			dirty += s.Size
		} else {
			clean += s.Size
		}
	}
	due := dirty > 0 && dirty >= clean || p.From > 0 || p.Tombstone > 0 && p.Tombstone < plan.TombstonesBefore
	return plan, due
}

// Done gives what is to be remembered of a pass that came to its end. full is Keys.Full, tombstone the oldest one of all segments that stayed.
func (p Past) Done(plan Plan, full partition.Offset, tombstone int64) Past {
	return Past{Clean: plan.Learn[len(plan.Learn)-1].End, From: full, Tombstone: tombstone}
}
