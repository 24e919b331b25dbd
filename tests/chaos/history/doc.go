// Package history records what clients of one topic did and were told, and checks it against what the topic then holds.
//
//  1. Every value is unique and carries its ID and a checksum of sorts: its bytes follow from its ID and length, so a reader can tell what it reads.
//  2. A record that was acknowledged before a reading began is in that reading, once, at the offset of its ack. What was read once is in every
//     later reading, at the same place: committed is committed. What was trimmed is exempt. What lies beyond the end that a reading was told is
//     stale: no other reading can make it right, but one tells whether it is lost.
//  3. A record whose write failed is in no reading. A record whose outcome is unknown is there at most once.
//  4. If one write was answered before another was begun, it has the lower offset. Of one session, writes that were acknowledged lie in the
//     order in which they were begun.
//  5. The clock is a counter: Invoke and the outcome calls take a tick each, at the moment they are made. Invoke is called before the write is
//     handed over, an outcome after its answer came, so no order is claimed that was not there.
//
// Called by tests/chaos. A History is safe for concurrent use; a Reading belongs to the goroutine that reads.
package history
