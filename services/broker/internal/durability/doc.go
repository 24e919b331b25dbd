// Package durability says what an ack means: from when a broker syncs what it appended, and what its topic asks for.
//
//  1. A broker that syncs before it counts gives a quorum topic what it asks for. Any weaker policy, or a relaxed topic, makes acks say that a
//     majority has written, not synced.
//  2. The weaker of both counts, and every ack names what was reached.
//
// Called by replica, and by the broker's root to read its setting. A value without state, safe for concurrent use. It syncs nothing.
package durability
