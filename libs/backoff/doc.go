// Package backoff spaces attempts: exponentially, with jitter, within a context.
//
//  1. The nth wait is drawn from [(1-Jitter)·d, d] with d = min(Max, Initial·Factor^n).
//  2. A wait ends with its context at once.
//  3. It never decides whether to try again: that needs to know what failed.
//
// Called by whatever redials, re-registers or retries. A Backoff belongs to one goroutine.
package backoff
