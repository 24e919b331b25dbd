// Package model is the executable model of the replication protocol and of the storage under it: one partition, five brokers, a
// compare-and-swap register for etcd, a network that loses, repeats and reorders, and disks with a page cache, a journal, torn power loss,
// failed fsync, rot and total loss.
//
//  1. A run is a function of its seed, its mutant and its number of steps: one goroutine, one source of randomness.
//  2. Without a mutant no seed violates: I1 one writer an epoch, I2 one record an offset, I3 leader completeness, I4 log matching, I5 durable
//     majority at the ack, I6 nothing below the high watermark is cut.
//  3. Each mutant removes one rule of the protocol or of the storage and is caught by some seed; the two that are redundant say so.
//
// What of the storage is modelled: appends that are synced by their file or by the journal (redo: contiguous, from the durable mark), the
// barrier before a truncation (file synced, Void and mark durable, then the cut, durable before the first append after it), recycling of the
// journal, marks and high watermarks written late, recovery by classes (corrupt below what is proven, torn within a window above it, suspect
// beyond), the tail rewritten in place. Not modelled: repair from the bucket, learners, reads by ReadIndex, dedupe, groups.
//
// Called by tests and by `make model`. It is the reference for quorum and wal, and imports neither.
package model
