package segment

import "github.com/seedqueue/sq/libs/partition"

// Redo names bytes of a segment file that a disk's journal holds a copy of: whole batches [Offset, End) at Position. Everything before them in
// the log was durable, in its file or in the journal, when the journal took them in.
type Redo struct {
	// Generation is the log's when the bytes were written. Every cut makes a new one, so with Base it names one making of a file, and no
	// bytes that were cut since. Redo of another generation than the replica's mark is dead.
	Generation uint64
	Base       partition.Offset // of the segment
	Offset     partition.Offset
	End        partition.Offset
	Position   int64
	Length     int64
	Chain      uint64 // chain word of the batch at Offset
	Next       uint64 // chain word of the batch at End
}

// Mark is the place behind the bytes.
func (r Redo) Mark() Mark {
	return Mark{Generation: r.Generation, Base: r.Base, Offset: r.End, Position: r.Position + r.Length, Chain: r.Next}
}
