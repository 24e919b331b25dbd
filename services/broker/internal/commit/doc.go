// Package commit makes the appends of a disk's replicas durable together, so that small ones share one fdatasync.
//
//  1. There is no timer: a group is what arrived while the last sync of the journal ran.
//  2. An append is durable when its own file is synced, or when the journal's ring holds its bytes and is synced. plan says which: a lone file
//     is synced; of several the small ones go to the ring; where the ring has no room nobody waits for it.
//  3. What the ring holds stays there until its file is synced. A checkpoint in the background does that and only then, with the new tail
//     durable, gives the room back.
//  4. Sync never waits; done is called once, by the committer or by a worker, and must not block.
//  5. Nothing is retried: the first failure poisons the log or the journal, and Failed hears of it where no caller does.
//  6. Replay brings the redo of the life before into the files, before any log is opened, and then ends it durably: marks of a new generation
//     and an empty ring.
//
// Called by replica (Seat.Sync) and roster (New, Join, Replay, Close). Safe for concurrent use. It does not know what is in a batch.
package commit
