// Package journal is a disk's stream of replica-local state (what a replica must not forget and what may not take an offset of its log), and its
// ring of redo: copies of small appends of many logs, made durable by one sync. docs/formats/journal.md has the bytes.
//
//  1. What was Put before a Sync began is durable when that Sync returns nil, in the order of Put.
//  2. State only grows in certainty: a promise and a high watermark never fall, a mark never goes back within its generation, and a mark
//     of an older generation is ignored. So the order in which goroutines Put about one replica does not matter.
//  3. Each record names the sequence below which everything was durable when it was written. A bad place that some later record proves
//     durable is corruption; any other is the torn end of a write that nobody was answered for.
//  4. Open never goes on with a file of an earlier life, whose cached pages may not be on the disk: it writes the state to a new file,
//     syncs, renames, and only then removes the old one.
//  5. A failed write or sync poisons the journal: every later call fails with fault.DiskPoisoned, nothing is retried. A full disk does not:
//     what did not fit is taken back and stays pending.
//  6. The file has its blocks before it is used, so that promises and marks fit on a full disk until the next checkpoint.
//  7. The ring is bounded, written in full before it is used, and never written over what is live: Free gives room back only when the new tail
//     is durable. A group is written only when the one before is durable, and repeats its list: damage to one header loses nothing.
//  8. Each use of the ring has an identity of its own, that nobody can guess: nothing else is taken for a group.
//
// Called by the broker's replicas (promise, mark, high watermark, faults) and by its roster (created, deleted). The ring is
// written by commit. Safe for concurrent use; it starts no goroutine: the first caller of Sync does the work for all that wait. It does not
// know what is in a batch, nor where the files are.
package journal
