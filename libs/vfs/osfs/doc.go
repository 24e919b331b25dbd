// Package osfs is the machine's file system below one directory, as a vfs.FS.
//
//  1. Everything goes through one os.Root: no path, with or without symbolic links, leads outside.
//  2. Nothing is synced that was not asked for, but the directory's own entry, when New makes it.
//  3. On macOS Sync, Datasync and SyncDir use F_FULLFSYNC: its fsync leaves data in the drive's cache.
//  4. Files are made with mode 0600 and directories with 0700: a log is nobody else's to read.
//
// Called by cmd/sq-broker, allinone's composers and the inspecting commands. Safe for concurrent use, as vfs says. It does not cache,
// retry or count.
package osfs
