// Package operator carries out what operators ask of a cluster: drain and decommission a broker, reassign partitions, hand a leadership over,
// recover by force, and tell whether a broker can be stopped.
//
//  1. What takes time is only written down here (orders of a broker, plans of assignments), in one compare-and-swap each; reconcile carries it
//     out, under this coordinator or a later one. Repeating a request that was written changes nothing.
//  2. Every write compares the coordinator's term and what it was decided from.
//  3. A partition that is electing is left alone: a write would cost its leader the activation.
//  4. A forced recovery is refused while a majority of the members that were last active answers soundly. It begins a new lineage, from the
//     replica with the greatest (last epoch, end), and leaves a record for ever in the same transaction. Without accept it changes nothing.
//
// Called by api. Safe for concurrent use.
package operator
