// Package wallclock tells the time to what keeps and expires data.
//
//  1. Elapsed is monotonic, Micros is what the wall says.
//  2. Expiry goes on as if the wall clock had never stepped by more than an hour: a wrong clock must not delete anything.
//
// Called by replica. A Clock belongs to one goroutine.
package wallclock
