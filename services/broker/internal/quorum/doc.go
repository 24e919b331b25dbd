// Package quorum is the replication protocol of one partition as a pure state machine: who leads, what is in the log, what is committed.
//
//  1. Promise before anything: no PrepareOK, AppendOK or EpochStart of an epoch leaves before the promise of that epoch is durable. An epoch
//     belongs to one incarnation; a process never takes up an epoch it did not promise in this life (R2).
//  2. A candidate fences a majority of the base members, takes the log with the greatest (last epoch, end) among their answers, makes an
//     EpochStart durable on a majority of the new members, wins the activation CAS, and only then leads. A CAS that was lost or whose result is
//     unknown is followed by a linearizable re-read, never by an assumption (R8).
//  3. The high watermark moves only while leading, only to an offset behind this epoch's EpochStart that a majority of the members hold by
//     AppendOKs of this epoch (R4), the leader counting itself by its own mark. It never moves back.
//  4. Marks carry the truncate generation: what was persisted of a log that has been cut since is no evidence (R1).
//  5. Nothing below the high watermark is truncated; being told to is a broken fault model: the replica quarantines itself.
//  6. Only the leader cuts segments (segmentBase); age counts only if the open segment holds records, so that sealing does not feed itself.
//
// Called by replica, which owns one State per partition, turns what happens into events and carries out the effects, and by tests, which do
// both by hand. A State has no goroutine, channel, clock, I/O or randomness, and is used by one goroutine at a time. It does not
// deduplicate (producer), does not know what control batches mean but for EpochStart (fold, sealed), and does not repair damaged logs.
package quorum
