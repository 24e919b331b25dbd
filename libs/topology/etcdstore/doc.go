// Package etcdstore is a topology.Store in etcd.
//
//  1. Reads are linearizable. A long List is read in pages of one revision.
//  2. Every call ends within the request timeout. A read or renewal that was not answered is topology.Unavailable; a Txn that was not answered
//     is topology.Unknown, unless etcd refused it.
//  3. Watches ask for a leader, so that a watch on a cut-off etcd member breaks instead of falling silent.
//
// Called by the services' mains (New) and by the all-in-one, which wraps the client of its embedded etcd (Wrap). Safe for concurrent use. It
// does not log; the etcd client's own log is discarded, since every failure is returned.
package etcdstore
