// Package sealed is what a partition's log says about its own segments: which are sealed, which are in the bucket, which may be deleted, and
// where the log starts.
//
//  1. The Table is a fold over committed control batches (Seal, Compact, TierCommit, TierDrop, TierCollect, TrimTo); applying one twice changes nothing
//     the second time. Its version is the offset behind the last control batch that changed what a manifest shows, so that it only grows,
//     restarts included.
//  2. Tiered segments are contiguous up to TierEnd (I11); sealed ones that are not tiered follow from TierEnd on, contiguous too, but for
//     what TrimTo has passed.
//  3. A commit to the tier is checked against the own Seal, digest included, and never names a collected key.
//  4. A segment's Seal is proposed only when its end is at or below the high watermark (R13), in order, and once its digest is known.
//  5. Local data goes only below the exported tier end, or below the log start; the log start moves before any object is dropped.
//  6. A Compact changes what a Seal says of the bytes, to fewer of them, and only as long as the bucket has none: what is tiered never changes.
//
// Called by fold (Table) and replica (Closing, retention). Pure values, used by one goroutine at a time. It makes no bucket call and reads no
// file.
package sealed
