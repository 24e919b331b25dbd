// Package data is the broker's data port: the calls of gateways, peers, tierers and coordinators, over proto/frame.
//
//  1. Nothing read from the wire is trusted. A batch is verified before a replica sees it: exactly one, header and body checksum, no stamp
//     word set, within the limits and the topic's batchBytesMax, routed by the topic's map version. Every list is held against a limit before it
//     is walked, every size is cut to its limit.
//  2. Publishes of one connection to one partition are handed over in the order of the wire, without waiting for one another: many wait for
//     one sync.
//  3. A call is for the roles that its row in the table names (calls.go); a call without a row is refused.
//  4. A batch's memory belongs to the replica from the hand-over to its Release, whatever became of the answer.
//  5. Other brokers must name their cluster and their number; a frame of theirs is peer's to verify and to answer. Their bodies have a
//     budget of their own.
//  6. Every answer is exactly one; where the outcome of a publish is unknown it says so.
//
// Called by the broker's root, which gives it Replicas and ProducerIDs. Handlers run on their connection's goroutine and start one of their
// own for what may wait. It does not know logs, quorums or the topology's store.
package data
