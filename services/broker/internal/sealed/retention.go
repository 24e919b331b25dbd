package sealed

import (
	"time"

	"github.com/seedqueue/sq/libs/partition"
)

// Piece is a finished segment of the log, wherever its bytes are.
type Piece struct {
	Base, End      partition.Offset
	Size           int64
	LastAppendTime int64 // microseconds since 1970
}

// Retention is how long, or how much of, a log is kept. Zero means for ever, or any amount.
type Retention struct {
	Time  time.Duration
	Bytes int64
}

// LogStart gives where the log should start at a time (microseconds since 1970), given its finished segments, oldest first, and the bytes of
// its open one. A segment goes when all of it is older than Time, or when what follows it is Bytes already.
func (r Retention) LogStart(pieces []Piece, openBytes, now int64) partition.Offset {
	var start partition.Offset
	total := openBytes
	for _, p := range pieces {
		total += p.Size
	}
	for _, p := range pieces {
		aged := r.Time > 0 && now-p.LastAppendTime > r.Time.Microseconds()
		large := r.Bytes > 0 && total-p.Size >= r.Bytes
		if !aged && !large {
			break
		}
		start = p.End
		total -= p.Size
	}
	return start
}

// Local is how much of a log stays on the broker although the bucket has it. Zero in both fields is 1 GiB and 1 h; zero in one of them means
// that the other decides alone.
type Local Retention

// Start gives where the local log may start: behind segments that an exported manifest covers and that are too old or too much.
func (l Local) Start(pieces []Piece, openBytes, now int64, exportedEnd partition.Offset) partition.Offset {
	if l.Time == 0 && l.Bytes == 0 {
		l = Local{Time: localTimeDefault, Bytes: localBytesDefault}
	}
	n := 0
	for n < len(pieces) && pieces[n].End <= exportedEnd {
		n++
	}
	for _, p := range pieces[n:] {
		openBytes += p.Size
	}
	return Retention(l).LogStart(pieces[:n], openBytes, now)
}
