// Package peer carries the replication protocol's messages between brokers, those of many partitions in one frame.
//
//  1. Send never waits. What cannot be sent is dropped, the oldest first: the protocol sends again.
//  2. A body that was given to Send is closed exactly once, whatever became of it.
//  3. Nothing read from the wire is trusted: every length is held against what came, header and body checksum of every batch are verified
//     before the Handler sees it, and a frame with one bad message delivers none.
//  4. Messages of one partition to one replica keep their order, as long as they are not of different urgency; an Append without batches never
//     overtakes one with batches.
//  5. Bodies that are unanswered between two brokers are at most 8 MiB in a direction, shared fairly by the partitions that have something
//     to send: one that is busy does not starve others.
//  6. A broker is suspected only for what it did: refused a connection after ending one, or said nothing for 1.5 s although asked. The
//     first answer ends it. Only brokers that share a partition watch each other.
//
// Called by the broker's root, which runs Peers and hands what comes to a Receiver; by replica, which sends; by herald, which reports the
// suspects. Peers and Receiver are safe for concurrent use. It does not know what the messages mean, resends nothing, stores nothing.
package peer
