// Package memnet is a network in memory, whose links a test cuts, delays and narrows.
//
//  1. A Host is a machine on it: what it listens on can be dialed from any host, and links are between hosts, one for each direction.
//  2. Connections buffer 256 KiB in each direction; a full one blocks the writer, as TCP does.
//  3. A cut link keeps its bytes: nothing arrives until Heal, dials wait, both ends see only silence. Reset is what breaks connections.
//  4. No goroutine and no timer outlives the call that needs it, and every wait is on a channel: it runs under testing/synctest.
//
// Called by tests, the simulation and `sq dev --brokers`. Safe for concurrent use. It does not lose or reorder bytes: TCP would not let
// that be seen.
package memnet
