// Package upload brings sealed segments into the bucket: it pulls one from its partition's leader, proves it, puts it with its footer as
// one object under the name of its content, and has the leader commit it.
//
//  1. Nothing goes into the bucket that was not checked: every header and body CRC, the chain, offsets, segment base and partition tag of
//     all batches, the size and SHA-256 of the Seal, and the index that the leader gave.
//  2. An object is put with IfAbsent. One that is there already must have the same digest and size, else nothing is committed.
//  3. A commit names what is in the bucket, in order, and only the log makes it true: a lost answer is harmless, the next harvest tells.
//  4. A segment is spooled to a file: memory does not depend on its size. At most Limits.Uploads are under way.
//
// Called by the tierer's worker. Safe for concurrent use. It decides nothing and deletes nothing.
package upload
