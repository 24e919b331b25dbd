// Package standin has a small broker for the tierer's tests: it speaks the real protocol over a real connection, and its partitions have
// sealed segments of real batches and a tier table with the rules of the real one.
//
//  1. A commit is taken only if it continues the table and matches the seal; an export only of the broker's epoch and not of a newer table.
//  2. What a test breaks (bytes, answers) is broken in the wire's answers only, not in what the test compares with.
//
// Called by tests only. Safe for concurrent use.
package standin
