// Package harvest finds work: it polls every live broker for partitions that have segments to upload, tables to export or keys to collect, and
// hands those that this tierer owns to the worker.
//
//  1. A partition is owned by one of the live tierers, by rendezvous hash: when one comes or goes only its share moves. Two that own one for
//     a moment do no harm.
//  2. A partition is worked on by one goroutine at a time. One that failed is left alone for a while that grows up to RetryLast.
//  3. At most Limits.Workers partitions are worked on at a time; what finds no place comes again with the next poll.
//  4. A broker whose work is not for us, or cannot be done now, is not asked in a tight loop.
//
// Called by the tierer's lifecycle. Run owns all goroutines and joins them.
package harvest
