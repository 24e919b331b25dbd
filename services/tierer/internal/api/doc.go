// Package api is the tierer's data port: Fetch and ListOffsets for what is in the bucket, in the protocol that brokers speak.
//
//  1. A request is answered exactly once. What is not served here is Invalid.
//  2. The read loop of a connection never waits: a request is served by a goroutine of its own, at most Limits.Reads at a time over all
//     connections; beyond that and a queue of as many it is Overloaded.
//  3. An answer never has more bytes than the reader asked for, but for one whole batch. The high watermark and the local start of an answer
//     are the tier end: a tierer knows of nothing above.
//
// Called by gateways over proto/frame. Safe for concurrent use; Wait joins the reads in hand.
package api
