// Package ledger is the tierer's cache of tier tables: what of each partition's log the bucket has, as its leader said last.
//
//  1. A table that it gives is immutable, checked (manifest.Table.Check), and was true at some moment: segments in it never change, so an old
//     table finds right bytes, and whatever it lacks is asked for by Refresh.
//  2. A table never goes back: an answer of an older epoch, or of an older version in the same epoch, is refused.
//  3. At most Limit partitions are kept; the one that was used longest ago is forgotten.
//
// Called by coldread (Table, Refresh) and export (Refresh). Safe for concurrent use. It has no authority: the log decides.
package ledger
