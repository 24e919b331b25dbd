// Package workers is the fixed set of goroutines that do a disk's blocking calls.
//
//  1. A hung disk costs as many threads as there are workers, and no more.
//  2. Jobs begin in the order they came. Bulk work (digests) has at most a quarter of the workers and yields to everything else.
//  3. Whoever hands a job over does not wait. The queue has no bound of its own: a replica has at most one job for its log, one promise and
//     a few digests in it.
//  4. A pool by hand has no workers: Step does a job. That is the simulation's.
//
// Called by replica, with one pool a disk, which roster makes and closes. Safe for concurrent use.
package workers
