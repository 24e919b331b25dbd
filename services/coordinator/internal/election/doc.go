// Package election makes one coordinator of many the active one, by the leased key /sq/coord.
//
//  1. A term is named by the key's CreateRevision. Every write of an active coordinator compares it (Guard), so that a deposed one writes
//     nothing, whatever it believes.
//  2. A term ends for its holder no later than for everybody else: at the latest one lease after the last renewal was sent, by the
//     holder's monotonic clock. Guard refuses from then on.
//  3. A process takes its incarnation from the store's revision at its start. A restarted coordinator with the same id deletes the key of
//     its earlier life at once instead of waiting for its lease; the key is created anew, so that the term changes.
//  4. What leads has stopped before the next campaign begins.
//
// Called by coordinator.Run; catalog and reconcile ask for the Guard. Run is called once; the other methods are safe for concurrent use.
// It does not decide anything about partitions.
package election
