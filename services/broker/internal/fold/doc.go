// Package fold is what a partition's log says, as of an offset: producers, tier table, epochs, log start.
//
//  1. A State is a pure function of the committed log up to End: every replica has the same, and writes the same snapshot bytes.
//  2. What lies above the high watermark waits in order; it is folded when it is committed and taken back when the log is cut.
//  3. At each segment boundary the snapshot of the state there is kept until the segment before it is sealed, so that it is the state at
//     exactly that segment's end.
//
// Called by replica, on its goroutine. No goroutine, clock or I/O. What the parts mean is theirs: producer and sealed.
package fold
