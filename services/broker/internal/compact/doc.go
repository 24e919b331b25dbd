// Package compact decides what is left of a log whose topic keeps the newest record of each key.
//
//  1. A record goes only if the log has a newer one of its key that is in the Keys: a claim "this key has a record at this offset". So what the
//     Keys do not know, because it did not fit or was not read, stays. Keys are told apart by 128 bits of SHA-256, so that nobody can make two
//     of them collide.
//  2. A tombstone (a key with a null value) goes when it is the newest of its key, older than the age, and nothing older of its key stays below
//     it. Segments are rewritten in the log's order, so that no reader sees the value come back.
//  3. Records without a key, control batches, and batches that cannot be decoded stay as they are.
//  4. Offsets, order, stamp words and the span of a segment stay. The batches of a rewritten segment still cover its offsets without a gap: what
//     is left of a batch keeps its place, an empty one becomes part of the one before or a batch without records.
//  5. What a Rewriter puts out is smaller than what it takes the place of, or the same bytes.
//
// Called by replica: Keys and Rewriter belong to one goroutine at a time, Turn is shared by the replicas of a disk. No I/O; the only clock is the
// Turn's, for its rate. It does not know segments' files, nor what is sealed or committed: replica does.
package compact
