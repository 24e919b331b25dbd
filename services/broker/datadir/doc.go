// Package datadir reads a broker's data directory from outside: what is in it, and whether it is damaged.
//
//  1. Nothing is ever written, locked or removed. A directory of a running broker can be read; what moves meanwhile is not called damage.
//  2. A bad place is named as the broker's own recovery names it, from the same evidence: torn (never acknowledged here), corrupt (proven to
//     have been durable) or suspect (nothing proves either). docs/operations/inspect.md has them in words.
//  3. Memory is bounded: one index, one snapshot and one batch at a time, and as many findings as findingsMax; a journal is read whole.
//  4. What cannot be read is a finding like any other. An error is only returned where there is nothing to look at.
//
// Called by `sq inspect` and `sq doctor`. A call belongs to one goroutine. It repairs nothing: the broker does, from its replicas.
package datadir
