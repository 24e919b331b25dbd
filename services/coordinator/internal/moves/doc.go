// Package moves decides who holds replicas: it replaces what is lost, dead or leaving, keeps to the topics' replication factors and carries out
// what operators have planned, a few partitions at a time.
//
//  1. Only a partition that is ACTIVE and whose leader lives is changed, and one that has a change under way gets no second one.
//  2. A change goes plan → learn → reconfigure. The plan is in the assignment, so another coordinator goes on from where this one died; each step
//     is one compare-and-swap of it.
//  3. A new member set comes only when all that is added has caught up, and a majority of the whole set has. It has as many members as the topic
//     asks for, or as there were: where too few brokers can take replicas a bad member stays rather than that the set shrinks.
//  4. Caught up is: the leader says of a replica that it has all there was at the look before, twice in a row, or all there is (Learning).
//  5. A replica that has lost its data comes back under a new UUID, on its own broker where that can take it. No UUID is used twice.
//  6. New replicas go to the zone that has fewest of the partition's, then to the broker with the fewest replicas.
//
// Called by reconcile. Pure but for NewUUID; a Learning is used by one goroutine.
package moves
