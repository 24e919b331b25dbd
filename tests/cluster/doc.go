// Package cluster runs SQ as its users do, from built programs, for tests that need the whole.
//
//  1. A shape is how it runs: AllInOne is one `sq dev`; Processes is each service as a process of its own, with a real etcd and a real S3
//     server beside them, and as many brokers, coordinators and gateways as asked for.
//  2. Everything is in the test's temporary directory and on free ports of 127.0.0.1; what is started is ended with the test.
//  3. Kill is SIGKILL to that one process. Start again keeps its addresses and its data.
//  4. With a Network each process is a host of its own, and links between hosts can be cut, in one direction or both.
//  5. At the end each log of SQ's own programs is read: a panic, or an ERROR that the test did not Expect, fails the test.
//
// Called by tests/e2e and tests/chaos. A Cluster belongs to one test; its methods may be called from that test's goroutines.
package cluster
