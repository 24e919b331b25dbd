// Package node is what every process of a cluster has in common: settings, dependencies, ports, and its place in the cluster.
//
//  1. A process listens on all its ports or on none.
//  2. What it tells the others is where they reach it: what a user gave, else where it listens, with the host's name for a wildcard.
//  3. It belongs to one cluster: the one wanted, else the one in etcd, else a new one. Until etcd answers it waits, and says so once.
//  4. A server that is told to stop answers what is in flight, for ten seconds at most. One that stops because
//     something of its process has failed cuts it off: nobody knows what it would be answered by.
//  5. Randomness that fails ends the process: identities must not be guessed.
//
// Called by the services, which embed Config and Deps in their own, and by package process. Nothing runs here by itself: what serves or waits
// does so on the caller's goroutine until its context ends. It knows no service.
package node
