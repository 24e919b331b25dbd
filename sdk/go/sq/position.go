package sq

import "time"

// Position is a place in a log: Earliest, Latest, an Offset or a Time.
type Position interface{ position() }

// Edge is a Position at an end of the log.
type Edge uint8

// The edges.
const (
	// Earliest is the log start.
	Earliest Edge = iota
	// Latest is behind the last committed record, the high watermark, at the moment of the call.
	Latest
	// End is Latest, as it reads in Until(End).
	End = Latest
)

// Offset is a Position by number. As a start it is the first offset to read, as an end the first not to read.
type Offset int64

// Time is a Position by append time. As a start it is the first record appended at or after it, as an end the first not to read.
type Time time.Time

func (Edge) position()   {}
func (Offset) position() {}
func (Time) position()   {}
