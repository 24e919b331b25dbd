// Package leader is what a tierer asks of the brokers that lead partitions: which segments wait, their bytes, the tier table, and to commit
// what it has done.
//
//  1. Every call here is idempotent: one that was lost with its connection is sent once more over a new one.
//  2. The leader is the one that the newest View names, in the incarnation that is there. A wrong one answers NotLeader, and nothing is done.
//  3. Answers are taken apart and checked here: sizes, digests, order. What is wrong is fault.Corrupt.
//
// Called by harvest, upload, export, retention and ledger. Safe for concurrent use. It caches connections and nothing else.
package leader
