// Package cursor is where a reader over HTTP or gRPC stands: opaque text that any gateway of the cluster can read on from.
//
//  1. A cursor holds everything: the topic's identity, and for each partition the next offset and the highest epoch seen. No gateway
//     keeps a state for it.
//  2. Open accepts only what Seal of the same cluster wrote: a 16-byte MAC is checked first. Its key is derived from the cluster's id, so
//     it protects against mistakes (a cut or edited cursor, one of another cluster), not against who knows the id.
//  3. Open allocates by what it was given, never by a count inside.
//
// Layout before base64url without padding: version (1 byte, 1), topic (16 bytes), which position is served first (uvarint), count
// (uvarint), then per position, by partition: distance to the partition before (uvarint; of the first, its index), offset (uvarint),
// epoch (uvarint); last the first 16 bytes of HMAC-SHA-256 over all of that.
//
// Called by records, and by rest for the ids of server-sent events. Values, safe for concurrent use.
package cursor
