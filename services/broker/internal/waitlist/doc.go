// Package waitlist is the publishes that are in the log and wait for their commit.
//
//  1. Each is told once what became of it, and its room is given back then.
//  2. A batch is committed when the high watermark reaches its end; a duplicate waits for the end of the batch that it repeats (R5).
//
// Called by replica, on its goroutine; the Host is called there too.
package waitlist
