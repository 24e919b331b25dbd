// Package producer remembers what producers sent, so that what they send again is found instead of stored twice.
//
//  1. The table is a fold over the committed headers of the log: every replica has the same, a new leader needs nothing else (I12).
//  2. What is in the log above the high watermark is an overlay, taken back when the log is cut.
//  3. A session (producer id, partition) counts its own records from 0 and remembers its last five batches. A batch that is sent again is
//     recognised by its sequence, count and body CRC; an older one is known to be stored, its offset is not.
//  4. Idempotency keys are remembered for Window of append time, sessions until a ProducerExpire record names them.
//
// Called by fold, which says what is appended, cut and committed, and by replica, which checks before it appends, in one step. Values
// without goroutine, clock or I/O; used by one goroutine at a time. It does not decide when a duplicate may be answered.
package producer
