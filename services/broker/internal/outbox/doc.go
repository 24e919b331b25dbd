// Package outbox gives the other replicas of a partition what the protocol wants to tell them.
//
//  1. What a leader appends is read back from the log once it is written, and goes out as whole batches: no buffer is kept for a peer, however
//     slow it is (R17). A peer that is behind costs a place in the log, not memory.
//  2. A peer gets its part of the log in order, in pieces of at most a MiB and one batch, no more than there is room for on the way to its broker.
//     One that is far behind is held to a rate that the whole broker shares, until it is at the end.
//  3. A step back, another epoch and Reset make what is being read void.
//  4. What says only how far the log is committed rides with the next batches, or goes alone where there are none.
//
// Called by replica, on its goroutine; reads are jobs for the disk's workers. It has no goroutine and no timer of its own, and resends nothing:
// that is quorum's.
package outbox
