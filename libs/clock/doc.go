// Package clock is SQ's only way to the time.
//
//  1. Wall time decides nothing about order or durability: it stamps records, ages retention and is shown to people.
//  2. Monotonic time measures durations: deadlines, leases, suspicion.
//
// Called by every service through its Deps. Real is the process's clock, Manual a test's, which moves only by Advance. All are safe for
// concurrent use.
package clock
