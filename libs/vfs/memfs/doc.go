// Package memfs is a file system in memory that can lose power.
//
//  1. While nothing crashes it behaves as a machine's: unlinked files live until closed, renames replace, a volume can be full.
//  2. It remembers what each sync made durable, and of what was written since every version of every 4 KiB page (the last few), every
//     size and every directory operation.
//  3. Crash gives a new file system as a power cut at this moment may leave it, and leaves this one alone, so that one moment gives many
//     crash states. A page not synced is any of its versions, or a mix of two of them by 512 B sectors. An unsynced directory operation
//     happened or did not; a rename as a whole.
//  4. The same operations and the same rng give the same state.
//  5. After FailSync the pages are clean and not durable, as Linux leaves them: a later sync does nothing for them.
//
// Called by tests, by the simulation, and by `sq dev --memory`. Safe for concurrent use. It has no permissions and no links.
package memfs
