// Package wal is one replica's log in one directory: it writes batches, makes them durable, recovers them, and finds them again.
// docs/formats/segment.md has the files and the rules of recovery.
//
//  1. Append checks that what it writes continues the log: offset, chain, partition tag, epoch, segment base. It does not check bodies:
//     whoever received them has.
//  2. What a Sync that returned nil covers is there after any crash, the same. The rest is a prefix of what was written, or is told as
//     corrupt or suspect.
//  3. A segment is durable before the next one's file exists. So at most the last file holds anything that is not.
//  4. At most segment.Window bytes are written and not durable: Append syncs before it goes beyond.
//  5. A failed write, sync, cut or removal poisons the log: every later mutation fails with fault.DiskPoisoned and nothing is tried again. A
//     full disk does not: the append is taken back whole.
//  6. Recovery rewrites in place what is not proven to be durable here, with the same bytes, before it syncs: it never trusts a page of an
//     earlier life and never cuts first. Doing it twice changes nothing.
//  7. Nothing is cut before the caller's marks allow it: what stays is synced, then Config.Barrier runs, which also ends the life of redo.
//  8. Bytes that were durable and are damaged are never cut and never read as something else: reads there fail with fault.Corrupt.
//  9. Redo is of the open file only, and of the bytes behind what is persisted. What replay.Log does comes before Open.
//
// 10. Readers take no lock: they see an immutable view of the segments, and what they found stays readable until they let it go.
//
// Called by broker/internal/replica, and by commit for what is between written and persisted: mutations by one goroutine at a time, Sync beside
// Append if wished, everything else by any. It starts no goroutine. It does not know epochs' meaning, high watermarks or what a snapshot holds.
package wal
