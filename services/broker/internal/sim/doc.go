// Package sim runs brokers' real replication code on one thread, seeded: quorum, replica, wal, journal, commit, fold and producer over disks in
// memory, with everything around them simulated.
//
//  1. A run is a function of its seed: one agenda ordered by (time, order of planning), random numbers from the seed alone, with a stream for
//     each machine. TestSim runs some seeds twice and compares.
//  2. A process has no goroutine. Its replicas, workers, commit rounds, errands and timers run as events of their own, in changing orders and
//     at changing speeds; a call that waits is a coroutine of the same thread.
//  3. Simulated are the network (latency, loss, repetition, reordering, packets that take the long way, one-way cuts, splits), etcd (a
//     linearizable register whose answers get lost, outages), clocks (offset, drift), machines (kill -9, power cuts of one and of all, pauses,
//     slowness, death in the middle of any call to the disk), disks (failed fsync, EIO, ENOSPC, and on one machine bit rot and loss), clients,
//     and a nominator in place of the coordinator, which is not wise.
//  4. Every seed draws its own taste: sizes, speeds, and how often each fault comes. Faults are likelier at moments of the protocol where they
//     hurt: before an activation, after an ack, after a nomination, at a start.
//  5. What replicas show is compared after every event: one writer an epoch, one record an offset, nothing below the high watermark changes, a
//     leader has what was committed, a session's sequence is in the log once. In the end the faults stop, a majority goes on, everything has
//     to be answered, and the history and the sealed files are compared.
//
// Called by tests. docs/operations/proof.md says how to run it and what it has shown. The model subpackage is the small model of the protocol.
package sim
