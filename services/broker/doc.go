// Package broker is the service that keeps the records: replicas of partitions on its disk, led and followed through etcd, served on the
// data port.
//
//  1. A broker holds one data directory, locked, and refuses one of another cluster or broker.
//  2. Every start is a new life: a higher incarnation, claimed in etcd before anything is served, so that it leads only by an epoch of this life.
//     It replaces its own old registration at once; whatever it had acknowledged is on its disk.
//  3. It looks alive only while its disk works (lease), and ends with fault.DiskPoisoned when the disk fails: whoever runs it starts it anew.
//  4. It waits for etcd: until the first answer it serves its health port only. Once it leads, it serves with etcd away.
//  5. It tells the coordinator what it sees (herald), and before it stops it asks for what it leads to be led by others, and serves until it is.
//  6. It stops in order: goAway, what is in flight is answered, logs and journal are closed, the registration is taken back.
//
// Parts: ident (whose directory), journal and wal (bytes), quorum, producer, sealed, fold (pure state), replica and roster (partitions), data
// (port 6164), peer (messages to other brokers), herald (reports), lease (registration), scrub (finds damage in what is sealed), pid (producer ids). Called by cmd/sq-broker and by allinone.
package broker
