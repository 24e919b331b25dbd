// Package pool keeps the files of dropped segments of a disk, with the blocks they have, to be written over by new ones.
//
//  1. A file in the pool, and one that was taken out and is not full yet, has a size that no sequence of batches has. So it is known, after
//     any crash, that its end is not the segment's.
//  2. It has one earlier life, and goes to no segment that this life's batches could be taken for.
//  3. Its bytes change only when its old name is durably gone, and a name that it gets is durable before Take returns.
//  4. Files and their bytes are bounded; what does not fit is removed.
//
// Called by segment (Take, Give) and by the broker's roster (New, Shrink). A Pool is safe for concurrent use. It does not know logs, and does
// not look whether anybody has a file open.
package pool
