// Package inbox is what others hand to a goroutine that owns something: items, of which it bounds number and bytes, and calls.
//
//  1. What was handed over is taken in order, calls and items each for themselves.
//  2. Calls are not bounded here: they are completions and requests of the broker itself, whose number is bounded by what is in flight.
//  3. An item has its room until it is answered, not only until it is taken.
//
// Called by replica. Safe for concurrent use; nothing blocks.
package inbox
