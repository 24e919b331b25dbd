// Package chaos breaks SQ under load and checks every record that was acknowledged.
//
//  1. TestRounds: processes are killed, stopped, paused, and, on a file system of the test's own, cut from power, while producers and readers
//     work. After every round all is read back and checked (package history). SQ_CHAOS_ROUNDS is the number of rounds, SQ_CHAOS_FS (ext4, xfs)
//     makes and mounts an image for the broker's data, SQ_CHAOS_SEED repeats the choices of an earlier run, though not its timing.
//  2. TestFailedSync: the kernel fails a sync of the broker; it ends, and says why; nothing acknowledged is lost.
//  3. TestFullDisk: a full file system refuses records in words, serves reads, starts again, and goes on when there is room.
//  4. TestCluster: three brokers, two coordinators, two gateways and etcd, each a host of its own: any of them is killed, paused, cut off, stopped,
//     or loses its disk, under load on three replicas. When it is over records are acknowledged again and replicas come together, by themselves.
//     At the end sealed segments are the same bytes on all brokers. SQ_CHAOS_CLUSTER is the number of brokers.
//
// It is all tests. Images and failing syncs need root, loop devices and strace; without them those tests are skipped and say so, but rounds on a
// file system that was asked for fail then. `make chaos` runs many rounds; see docs/operations/chaos.md.
package chaos
