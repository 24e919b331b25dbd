// Package replica is one replica of one partition: the shell around the pure quorum, its log, and what the log says.
//
//  1. One goroutine owns a partition's mutation; it takes requests and completions from a bounded mailbox and never blocks on I/O, which a
//     fixed pool of workers a disk does. At most one job of a replica is with the workers for its log at a time.
//  2. Group commit has no timer: a group is what arrived while the last write and sync ran; a large one is written while the last is synced. The
//     sync is the committer's, which shares it with other logs of the disk.
//  3. Deduplication and append are one step of that goroutine. A duplicate is answered when its offset is below the high watermark (R5).
//  4. Nothing above the high watermark is read, folded into a snapshot, sealed or answered. Whoever is answered finds in the next read
//     what he was answered.
//  5. A failed write or sync is never retried: the replica stops, its waiters get OutcomeUnknown, and the roster ends the broker.
//  6. A batch's bytes are the replica's from Publish to Release.
//  7. A segment is sealed below the high watermark only (R13): cut, digest by a worker, Seal in the log, committed, then marked with its
//     snapshot. Its local copy goes only below the exported tier end, or below the log start.
//  8. With Deps.Errands nothing runs by itself: one thread calls Step and runs the errands, Workers and Commit. So: no go, no bare wait here.
//
// Called by data (requests) and by roster (assignments, opening, closing). All methods of Replica are safe for concurrent use; callbacks run
// on the replica's goroutine or the caller's and must not block. It does not place replicas, and does not talk to the topology but through
// the Activator it is given.
package replica
