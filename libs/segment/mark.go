package segment

import "github.com/seedqueue/sq/libs/partition"

// Mark is a place up to which a replica's log is durable on its own disk. The broker keeps the newest one in its journal, at most a second
// old; after a crash it tells torn from corrupt.
type Mark struct {
	// Generation counts the truncations of the replica's log: a mark of an older one says nothing.
	Generation uint64
	// Base names the segment, Position is the byte in it where the batch at Offset begins.
	Base     partition.Offset
	Offset   partition.Offset
	Position int64
	// Chain is the chain word that the batch at Offset carries.
	Chain uint64
}

// Range is a stretch of a segment that cannot be read as frames.
type Range struct {
	// From and To are the offsets that are missing: [From, To).
	From, To partition.Offset
	// Base names the segment, [Position, Limit) the bytes.
	Base            partition.Offset
	Position, Limit int64
}

// Contains tells whether an offset is in the range.
func (r Range) Contains(o partition.Offset) bool { return o >= r.From && o < r.To }

// Class says what a crash left of a segment's tail.
type Class uint8

// The classes, from harmless to worst.
const (
	Clean   Class = iota // frames up to the end
	Torn                 // the rest was never acknowledged by this replica; it is cut
	Suspect              // nothing proves that the rest was not acknowledged; it is cut, and the replica says so
	Corrupt              // bytes that were durable are damaged; they are kept and reported
)

// String gives the class in lower case.
func (c Class) String() string {
	return [...]string{"clean", "torn", "suspect", "corrupt"}[min(c, Corrupt)]
}

// Window is the most that a writer leaves unsynced in a file, so that what a crash tears lies within it.
const Window = 16 << 20
