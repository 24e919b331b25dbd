// Package coldread serves what is no longer on the brokers: reads by offset and by time, from the bucket.
//
//  1. Bytes that leave here were checked: the footer by its CRCs and against the tier table, every 64 KiB block by the footer, every batch by
//     header CRC, body CRC, chain, segment base, partition tag and the offset where the index has it. What fails is read once more, and then
//     Corrupt: never skipped, never answered short.
//  2. A read ends at the end of a segment at the latest, and always says where to go on.
//  3. At or above the tier end it is OffsetOutOfRange, after the leader was asked: the reader goes to the broker. Below the log start it is
//     OffsetTrimmed.
//  4. Memory is the caches' bound and one read's blocks; GETs at a time are bounded.
//
// Called by api. Safe for concurrent use; Close joins the loads under way.
package coldread
