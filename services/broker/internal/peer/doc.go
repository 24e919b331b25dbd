// Package peer carries the replication protocol's messages between brokers, those of many partitions in one frame.
//
//  1. Send never waits. What cannot be sent is dropped, the oldest first: the protocol sends again.
//  2. A body that was given to Send is closed exactly once, whatever became of it. One that cannot be read costs its own message only.
//  3. Nothing read from the wire is trusted: every length is held against what came, and a frame that lies about one delivers nothing. Header
//     and body checksums of every batch are verified before the Handler sees it; a message that fails is left out.
//  4. Messages of one partition to one replica keep their order, as long as they are not of different urgency; an Append without batches never
//     overtakes one with batches.
//  5. Bodies that are unanswered between two brokers are at most 8 MiB in a direction. A frame is answered when its memory is free again.
//     Partitions take turns, and each has its share of the room: one that is busy does not starve others.
//  6. A broker is suspected only for what it did: refused a connection, or said nothing for 1.5 s although asked. The first answer ends it,
//     and so does its next life. Only brokers that share a partition watch each other. A lapsed lease is no reason not to reach a broker.
//
// Called by the broker's root, which runs Peers; by replica, which sends; by data, which hands what comes to a Receiver, and that to its Handler
// (roster); by herald, which reports the suspects. Peers and Receiver are safe for concurrent use. It does not know what the messages mean,
// resends nothing, stores nothing.
package peer
