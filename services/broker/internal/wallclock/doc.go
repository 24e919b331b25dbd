// Package wallclock reads a clock for what expires, and notices when the wall time steps: a step of more than an hour is told and does not advance
// expiry.
//
// Called by replica, one Clock each, on its goroutine.
package wallclock
