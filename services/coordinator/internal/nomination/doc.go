// Package nomination decides which partitions need another leader, and which of its members is nominated.
//
//  1. A leader is replaced when its broker has no lease, lives in another incarnation, has lost the replica, is not reached by a majority of the
//     partition's members, or does not finish its election. A leader that drains is replaced only where somebody else can lead.
//  2. Candidates are live members with a sound disk and their data, whom no majority of the members suspects. Of them the one with the greatest
//     (last epoch, end) goes first, as far as that was told; then the one that leads the fewest partitions. A replica that cannot lead is the last
//     resort. The candidate finds the longest log itself: a wrong guess costs time and nothing else.
//  3. Who acts on suspicion or impatience waits for the partition's hold to end: 5 s after a nomination that was not planned, twice as long after
//     each further one, at most 60 s (Holds). A lost lease or a new incarnation is a fact and waits for nothing; nor does a drain, which goes one way.
//  4. Members never change here.
//
// Called by reconcile and operator. Pure; a Holds is used by one goroutine.
package nomination
