// Package errand runs what a replica has done beside its own goroutine: calls that may wait, and what is due after a while.
//
//  1. Stop ends the context of every call and every wait; Wait returns when all calls have returned. Nothing begins behind Stop's return
//     that would not end at once.
//  2. A Runner of New has goroutines. Any other is driven by hand, on one thread: the simulation's.
//
// Called by replica. A Runner of New is safe for concurrent use. It knows nothing of what it runs.
package errand
