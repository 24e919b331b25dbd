// Package mutant removes rules of replication and of storage from the real code, one at a time, so that tests can show what each is for.
//
//  1. Without the build tag sqmutant Is is constantly false, and the compiler leaves nothing of it: no released binary has a mutant.
//  2. With the tag, Remove takes one rule away until its result is called. One at a time in a process.
//
// Is is called where a rule stands, by topology, wal, quorum and replica; Remove by the mutation gate of broker/internal/sim, whose scenarios
// each fail without their rule (docs/operations/proof.md).
package mutant
