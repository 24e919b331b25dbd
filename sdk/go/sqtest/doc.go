// Package sqtest is an SQ server in the memory of a test, for programs that use package sq.
//
//	server := sqtest.Start(t)
//	client := server.Client(t)
//
// It speaks the real protocol on a real connection, and keeps the rules that a client can see:
//
//  1. Offsets grow by one a record; control batches take offsets too (AppendControl). Everything acknowledged is committed at once.
//  2. Repeats of an idempotent producer are recognised: the next sequence and the last five batches of each producer are remembered.
//  3. Batches are checked as a leader checks them, limits and both checksums included.
//  4. Acks say durability none, which is the truth: nothing is on a disk.
//  5. What goes wrong in a cluster goes wrong here when a test says so (Inject, DropConnections, Repartition, Trim, Corrupt).
//
// Called by tests of users and of package sq. A Server is safe for concurrent use. It has no leaders, epochs, elections, tiers, retention,
// authentication or groups, and one gateway.
package sqtest
