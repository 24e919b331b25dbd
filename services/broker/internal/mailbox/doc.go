// Package mailbox is what others hand to a goroutine that owns something: publishes, which are bounded, and calls.
//
//  1. Nothing that was taken in is lost: Take or Close gives it out, in the order in which it came.
//  2. Publishes are bounded from Admit to Answered, in number and bytes; a single one may be larger than the bound. Calls are completions and
//     requests of the broker itself, whose number is bounded by what is in flight.
//  3. After Close nothing is taken in.
//
// Called by replica. Take and Close are the owner's; the rest is safe for concurrent use.
package mailbox
