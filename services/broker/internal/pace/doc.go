// Package pace decides when something that mostly waits is looked at again, so that ten thousand of them cost next to nothing.
//
//  1. After a look at something that has moved since the one before, the next one comes in a second.
//  2. Where nothing moves, the pauses double, up to a limit that the ages it has to notice allow.
//  3. Need only ever brings a look forward.
//
// Called by replica. Due is safe for concurrent use, all else belongs to one goroutine.
package pace
