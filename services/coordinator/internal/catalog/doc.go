// Package catalog is the cluster's namespaces and topics: what may exist, and how it comes and goes.
//
//  1. Every write compares the coordinator's term. A write whose result is unknown is resolved by a linearizable read.
//  2. A topic is visible with all its partitions or not at all: its assignments are written first, its name and settings last, in one Txn.
//     What a coordinator left that died between is found by reconcile (Creating) and removed.
//  3. A name that is taken, a request id that was used and a topic that changed are found by the compare of the write itself, never only by
//     the read before it.
//  4. Deleting frees the name at once and leaves a tombstone, by which replicas delete their data.
//  5. Repeating a create with the same request id, within an hour, answers what the first did; other content under the id is a conflict.
//  6. Reads are as new as the call that makes them, also right after another coordinator was the active one: topics are linearizable. An alteration
//     without an etag whose answer was lost is made again, perhaps over what others did meanwhile.
//  7. Every refusal names the field and the legal range.
//
// Called by api. Safe for concurrent use; topics are created side by side. It elects nobody: reconcile does.
package catalog
