// Package vfs is the file system as SQ needs it: few operations, each with its durability said.
//
//  1. Nothing is durable but by File.Sync, File.Datasync and FS.SyncDir: after a crash any subset of the 4 KiB pages written since, torn
//     at 512 B, and any subset of the directory operations since, may be there.
//  2. After a failed sync nothing about the bytes since the last good one may be concluded, and a second sync proves nothing.
//  3. Paths are relative to the root the FS was made with and cannot leave it.
//
// Homes: vfs/osfs (the machine), vfs/memfs (in process; Crash drops what was not synced), vfs/faultfs (fails by rule). All pass vfs/vfstest.
// Called by broker, allinone and inspect. An FS and a File are safe for concurrent use.
package vfs
