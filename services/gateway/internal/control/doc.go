// Package control is the gateway's gRPC: the public control API (sq.control.v1), and the server that it and the data API are served by.
//
//  1. What changes topics and namespaces is decided by the active coordinator; the gateway passes it on. A coordinator that refuses
//     because another one is active has done nothing, and the next one is asked. After a call whose outcome is unknown only what may be
//     repeated is repeated: reads, creations (they get a request id if they have none), deletions (whose second NotFound is success),
//     orders of brokers and plans of members (which say what is to be, not what is to change).
//  2. A creation answers when this gateway can serve the topic, or when the caller's time nears its end.
//  3. What only a partition's leader knows is asked of the leaders, some at a time; who does not answer is named in the partition's error.
//  4. Every error that leaves has a kind, a reason and a text; a panic costs its call only. Failures of SQ's own are logged here, once.
//  5. Every call holds one of the gate's slots from before its message is read, and has a deadline.
//
// Called by gRPC clients, and by rest over a connection in memory, so that both go the same way. Safe for concurrent use. It keeps
// connections to coordinators and nothing else.
package control
