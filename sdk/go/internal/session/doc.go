// Package session is the pure core of an idempotent producer: which batches of one (producer id, partition) are on their way, which may be
// sent now, and what an answer means for the others.
//
//  1. Sequences begin at 0 and have no gap: a batch gets its sequence when it enters the window, and leaves it stored, refused for good, or lost.
//  2. At most Max batches are unanswered: a broker remembers that many, so every repeat is recognised.
//  3. A repeat is the same bytes with the same sequence, and goes out only when no answer of this window is outstanding, in order.
//  4. A batch that may have been stored (an attempt had no answer) never enters another session. Where its session breaks it is lost:
//     its outcome is unknown.
//  5. Batches leave in the order in which they came.
//
// Called by package sq, one window a lane, from that lane's goroutine. No goroutine, clock or I/O inside.
package session
