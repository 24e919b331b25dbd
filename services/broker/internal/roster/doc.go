// Package roster is the set of replicas that this broker holds.
//
//  1. It follows the View: a replica is opened where an assignment names this broker, and told of every change of its assignment. Nothing is
//     concluded from absence: a replica that no assignment names any more stays open and keeps its data.
//  2. Data is deleted only on a positive tombstone of its topic, and by replica UUID (R14).
//  3. A replica is created empty only where its assignment proves that it never held anything; a member whose directory is gone is reported,
//     not replaced by an empty log (I10).
//  4. Paths are made of UUIDs only.
//
// Called by the broker's root (Run, Ready), by data (Replica, Harvest) and for scrub (Serving, Bulk). Safe for concurrent use. It does not decide who leads.
package roster
