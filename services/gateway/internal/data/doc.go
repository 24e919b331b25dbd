// Package data serves the gateway's data plane: Cap'n Proto clients on one port, spliced through to brokers and tierers.
//
//  1. A batch is checked by its header alone (its own CRC, a producer's batch, the topic's size limit) and its body goes on untouched.
//  2. Publishes of one connection go to a partition's leader in the order of the wire without waiting for answers; answers of any kind go
//     back in any order.
//  3. Every request has exactly one answer, an error with a kind among them. A publish that may have been stored is OutcomeUnknown.
//  4. Clients are served only what is theirs: Metadata, Publish, Fetch, ListOffsets, InitProducer. All else is Denied.
//  5. A connection's end ends everything done for it, and is joined.
//
// Called by the gateway's parts. Safe for concurrent use. It keeps nothing between connections, decodes no record, retries nothing itself
// (upstream does).
package data
