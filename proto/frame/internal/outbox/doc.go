// Package outbox is the sending side of a connection: callers append messages, one writer goroutine writes all there is at once.
//
//  1. Messages leave in the order of Push, each with its body right behind it.
//  2. Bodies are not copied, but for the smallest: what lies in memory goes into one writev with its neighbours, what writes itself
//     (a file section) is written alone.
//  3. A body is closed exactly once, and an item's Outcome called exactly once, when it has left the outbox: written whole, or never to be.
//     Only of a withdrawn item the Outcome is not told.
//  4. Push does not wait. Those who push bound the length by counting what they have in flight.
//
// Called by frame.Client and frame's server connections. Push, Withdraw, Close and Fail are safe for concurrent use; Run is the writer.
package outbox
