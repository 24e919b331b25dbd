// Package ident is the identity of a data directory: whose it is, and that one process uses it.
//
//  1. A directory is locked before anything in it is read or written; a second process gets fault.DataDirInUse.
//  2. The file "ident" names cluster, broker and disk and is written once, before any data: made under another name, synced, renamed, the
//     directory synced. A directory of another cluster or broker is fault.WrongCluster or fault.Conflict, and is left as it is.
//  3. A directory that has files but no identity is not taken over: an identity that got lost must not make old data look new.
//  4. The disk's UUID goes with the disk: an emptied directory is another disk.
//
// Called by the broker's root at start. Not safe for concurrent use. It does not look at what else is in the directory.
package ident
