// Package memstore is a topology.Store in memory, with etcd's revisions, leases, watches and compaction, and with faults on demand.
//
//  1. It passes topology/storetest, as etcdstore does.
//  2. Leases end by the injected clock: a lease that is due is ended before any later call answers, and by a goroutine of the store where no
//     call comes.
//  3. A fault never leaves half a transaction.
//
// Called by tests and simulations. Safe for concurrent use; Close ends its watches and joins its goroutines.
package memstore
