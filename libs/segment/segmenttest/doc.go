// Package segmenttest makes the batches of a log for tests, stamped as the leader of its partition stamps them.
//
//  1. The same calls give the same bytes.
//  2. Each batch continues the one before, until the test changes a field.
//
// Called by tests of segment, of the broker's log and of whoever reads segments. A Leader belongs to one goroutine.
package segmenttest
