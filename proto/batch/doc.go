// Package batch reads and writes the Batch of batch.capnp: the only bytes a producer makes, and the only bytes a log, a segment file and
// a bucket object hold. docs/formats/batch.md has the byte table.
//
//  1. A batch is one Cap'n Proto stream message with one segment whose root struct comes first, so every fixed word is at a fixed place.
//  2. The header CRC covers framing, root pointer and all fixed words; the body CRC covers the rest. A leader changes the stamp words and
//     the header CRC, nobody changes a body.
//  3. A Reader that accepted a message never fails on a record of it: Reset checks every column first.
//  4. Nothing is allocated by a length that was not checked against the bytes at hand, or against MaxRawBytes where bytes are inflated.
//  5. A null differs from an empty value, for keys, values and the values of headers.
//  6. What Builder writes, the generated code and `capnp decode` read; what the generated code writes behind the fixed prefix, Reader reads.
//  7. The named functions (NextChain, KeyHash, PartitionTag, PartitionOfHash, DedupeKeyOf, Micros) are part of the format.
//
// Called by the SDK (build, read), the gateway (headers only), the broker and the tierer (headers, CRCs, control batches). Functions are
// safe for concurrent use as long as nobody writes the bytes; a Builder and a Reader belong to one goroutine at a time, and both are made
// to be kept: they own buffers and codecs. It does not know topics, connections or files.
package batch
