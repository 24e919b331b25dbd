// Package blockcache keeps what was read from the bucket, within a bound of bytes, and reads what is missing once, however many ask.
//
//  1. What is in it was checked by the loader and never changes: a value is shared by all readers, who do not write into it.
//  2. Of callers that miss the same key at the same time one load serves all; a caller that gives up does not end it for the others.
//  3. At most Loads loads run at a time; the weight of the values kept is at most Bytes, those in use not counted.
//  4. An error is not kept.
//
// Called by coldread, for blocks and for footers. Safe for concurrent use; Close ends the loads that run and joins them.
package blockcache
