// Package topology is the cluster's metadata: the keys in etcd, their values, who writes each under which guard, and the immutable View
// of all of them that every service follows.
//
//  1. Every write is a Txn with the compare its key's table row names (keys.go). A Txn whose result is unknown is resolved by a
//     linearizable read, never by assuming.
//  2. A watch is a hint: nothing is concluded from the absence of an event, and whoever acts on a View acts by compare-and-swap.
//  3. Base changes only from ACTIVE (Assignment.Nominate); ACTIVE is written only by the leader that the epoch names.
//  4. A View is immutable. Readers hold it as long as they like.
//  5. Every value carries its schema version "v"; a newer one than this build knows is refused, not guessed at.
//
// Homes of Store: topology/etcdstore, topology/memstore. Both pass topology/storetest. Called by every service. A Store and a Follower are
// safe for concurrent use. Placement and elections are not here: services/coordinator decides, this package writes down.
package topology
