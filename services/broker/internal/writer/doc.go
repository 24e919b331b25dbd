// Package writer changes one log in the order that its replica asks for.
//
//  1. At most one job of a log is with the workers at a time. A job is everything that was asked for while the one before ran.
//  2. No worker waits for a sync: that is the committer's, which shares it with other logs of the disk. One of a log is under way at a time; what
//     is appended meanwhile is written, nothing else is done, and only the next sync makes it durable.
//  3. After a failure nothing more is done and the Host hears of it. An append that found no room is no failure: it and the appends and syncs
//     behind it are forgotten, cuts and changes are done all the same. The Host hears of it when what was written before is persisted.
//  4. The bytes of an append are released once, when they are written or certainly will not be.
//
// Called by replica, on its goroutine, where the Host is called too. A Writer has no goroutine of its own. It does not know what is
// in a log.
package writer
