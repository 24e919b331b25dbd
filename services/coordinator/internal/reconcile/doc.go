// Package reconcile brings the partitions' assignments in line with the brokers that live, with the topics' settings and with what operators have
// ordered, and removes what deleted topics leave.
//
//  1. A plan is a function of a View, the reports, the brokers' answers and what was seen before (Planner): it writes nothing. Look says what must
//     be asked, Decide makes the plan; nomination says who leads and moves who holds replicas. Loop asks and carries out.
//  2. Every change compares the term's guard and the assignment's ModRevision. A nomination compares the live keys of the leader that is given up
//     and of the one that is nominated too: a broker that turned out to live, or a candidate that died, makes the write fail, however old the
//     plan is.
//  3. After a pause of more than a second everything is read anew, and the reports are forgotten, before anybody is nominated (R21).
//  4. A write that lost is not repeated: the next plan starts from the new value (R7). A hundred changes go in one Txn; where that fails, each alone.
//  5. Brokers are asked within surveyTimeout, and only where there is a choice: missing answers do not stop a plan. Which log is longest the
//     nominated candidate finds out.
//  6. A partition gets one change in a plan. Leaderships are levelled out a few at a time, and only when no failover was for balanceQuiet, nothing
//     else is to be done and nobody elects.
//  7. Keys of a topic that was never completed go once nobody completes it. A deleted topic's assignments go when all brokers with a replica
//     have been live for the grace, in which they delete their data; its tombstone goes after tombstoneKept.
//  8. Where nothing happens nothing is written and nobody is asked.
//
// Called by coordinator while it is the active one. Loop.Run is one goroutine; Planner is used by it alone.
package reconcile
