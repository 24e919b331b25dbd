// Package sq is the Go client of SQ: it publishes records to topics and reads them back.
//
//	c, err := sq.Open(ctx, "localhost:6064")
//	ack, err := c.Producer("orders").Send(ctx, sq.Record{Key: []byte("c42"), Value: body})
//	for r, err := range c.Read(ctx, "orders", sq.From(sq.Earliest)) { … }
//
// What it promises:
//
//  1. An Ack says what the cluster did: where the record is and how durable. Without an Ack, the error says whether the record may be
//     stored: ErrOutcomeUnknown is the honest third answer, every other error means that it is not.
//  2. Producers are idempotent: a repeat after a lost connection stores nothing twice. Within one partition, records of a producer are
//     stored in the order in which they were handed over; what ended with ErrOutcomeUnknown may be stored anywhere behind what was
//     acknowledged before, or nowhere.
//  3. What can be tried again is tried again until the caller's context ends, with growing pauses, at any of the gateways.
//  4. A reader gives committed records in the order of their offsets, partition by partition; between partitions there is no order. It
//     never jumps silently: a trimmed log, a record that cannot be decoded and a log that was replaced are errors of their own.
//  5. One byte budget bounds what a client buffers: records to send, answers read ahead, what they inflate to. A record being handed over
//     waits for room.
//
// A Client, a Producer and all their methods are safe for concurrent use; an iterator belongs to the loop that runs it. Offsets are int64;
// they are not dense, since a log also holds records of its own. Topic names are "name" in the namespace "default", or "namespace/name".
//
// It does not speak the control plane: topics are made by `sq topic create`, by REST, or by a gateway that may create them on first use.
package sq
