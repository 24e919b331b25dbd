// Package petition is who wants a control batch in a log, one at a time.
//
//  1. The next one is decided when the batch of the one before is committed, so that it sees what those before it did.
//  2. Each is told once: when its batch is committed, when there was nothing to do, or with the error.
//  3. The number of those who wait is bounded.
//
// Called by replica, on its goroutine. It appends nothing itself.
package petition
