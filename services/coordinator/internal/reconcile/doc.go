// Package reconcile brings the partitions' assignments in line with the brokers that live, and removes what deleted topics leave.
//
//  1. Plan is a function of a View, the time and what was seen before: it reads and writes nothing else. Loop carries plans out.
//  2. Every nomination compares the term's guard, the assignment's ModRevision, and the live keys of the leader that is given up and of the
//     one that is nominated: a broker that turned out to live, or a candidate that died, makes the write fail, however old the plan is.
//  3. After a pause of more than a second everything is read anew before anybody is nominated.
//  4. A write that lost is not repeated: the next plan starts from the new value.
//  5. Which log is longest is not decided here: the nominated candidate finds out. Members do not change here.
//  6. Keys of a topic that was never completed go once nobody completes it. A deleted topic's assignments go when all brokers with a replica
//     have been live for the grace, in which they delete their data; its tombstone goes after tombstoneKept.
//
// Called by coordinator while it is the active one. Loop.Run is one goroutine; Plan is pure.
package reconcile
