// Package roster is the set of replicas that this broker holds.
//
//  1. It follows the View: a replica is opened where an assignment names it as a member or learner, or, until the next epoch is active, as a
//     member of the last active one; and told of every change of its assignment. Nothing is concluded from absence. A broker may hold several
//     replicas of a partition, an old one and the one that takes its place: members serve before learners.
//  2. Data is deleted only on a positive tombstone of its topic, or when the partition has been active without the replica for ten minutes and
//     etcd still says so; by replica UUID (R14).
//  3. A replica is created empty only where its assignment, or that its partition is younger than this life, proves that it never held
//     anything; a member whose directory is gone is reported,
//     not replaced by an empty log (I10).
//  4. Paths are made of UUIDs only.
//
// Called by the broker's root (Run, Ready), by data (Replica, Harvest), by peer (Deliver), by herald (Lost) and for scrub (Serving, Bulk). Safe for concurrent use. It does not decide who leads.
package roster
