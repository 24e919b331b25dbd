// Package route says where things are: a topic by its name, the leader of a partition, the tierers that serve its cold part, the
// active coordinator. It is a pure reading of topology.View.
//
//  1. A Table never changes. Who holds one sees one moment; the next request takes the next Table (Router.Table is one atomic load).
//  2. A leader is named only while its assignment is ACTIVE and its broker is there in the incarnation that the assignment names.
//  3. Tierers of a partition are ordered by rendezvous hash: every gateway asks the same one first, and when one goes, only its share moves.
//
// Called by data, records and control through upstream. Safe for concurrent use. It connects to nobody and decides nothing: a table may be
// old, and the broker that answers NotLeader is right.
package route
